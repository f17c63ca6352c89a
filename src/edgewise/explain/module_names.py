"""Names of the modules that make attention calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import index
from typing import Any

import numpy as np
import torch
from torch import nn

from edgewise._utils.errors import ArgumentError
from edgewise.attention.hooks import Interceptor, intercepting


class NamedInterceptor(Interceptor):
    """Interceptor that knows which module of a model makes a call."""

    def __init__(self) -> None:
        self._running: list[tuple[str, nn.Module | None]] = [("", None)]

    @property
    def name(self) -> str:
        """Dotted name of the innermost module that is running; the class name for the model."""
        return self._running[-1][0]

    @property
    def module(self) -> nn.Module | None:
        """The innermost module that is running."""
        return self._running[-1][1]

    def head_numbers(self, count: int) -> list[int]:
        """Return the numbers that the ``count`` heads of a call had before any pruning."""
        kept_heads = getattr(self.module, "kept_heads", None)
        return list(range(count)) if kept_heads is None else list(kept_heads)

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Activate an interceptor for the calls of a model within the ``with`` block."""
        # A method other than forward may make calls, such as ``embed`` of recommenders.
        self._running = [(type(model).__name__, model)]
        with ExitStack() as stack:
            stack.enter_context(intercepting(self))
            for name, module in model.named_modules():
                self._follow(stack, name or type(model).__name__, module)
            yield

    def _follow(self, stack: ExitStack, name: str, module: nn.Module) -> None:
        def enter(*_: Any) -> None:
            self._running.append((name, module))

        def leave(*_: Any) -> None:
            if self.name == name:
                self._running.pop()

        # Hooks of a ScriptModule would have to be compiled. A linear map calls no attention, and
        # with hooks, models would call it instead of using its weight, with other last bits.
        if isinstance(module, torch.jit.ScriptModule) or type(module) is torch.nn.Linear:
            return
        stack.callback(module.register_forward_pre_hook(enter).remove)
        stack.callback(module.register_forward_hook(leave, always_call=True).remove)


def model_of(model: Any) -> nn.Module:
    """Return the module of a model or run; raise ArgumentError for any other object."""
    module = model if isinstance(model, nn.Module) else getattr(model, "model", None)
    if isinstance(module, nn.Module):
        return module
    raise ArgumentError(
        "model",
        expected="a torch.nn.Module, or a run loaded with edgewise.load",
        got=type(model).__name__,
        remedy="load a run folder with edgewise.load",
    )


@contextmanager
def naming_the_run(
    model: Any,
    expected: str = "a run whose model computes attention",
    remedy: str = "choose a run of a Transformer or of a graph network with attention",
) -> Iterator[None]:
    """Report an error about the model of a run as one about the run."""
    try:
        yield
    except ArgumentError as error:
        if error.argument != "model" or isinstance(model, nn.Module):
            raise
        raise ArgumentError(
            "run",
            expected=expected,
            got=f"a run of {model.recipe.name}: {error.got}",
            remedy=remedy,
        ) from error


def layer_keys(layers: Any, argument: str) -> list[str | int]:
    """Return a name or number of a layer, or several, as a list of strings and Python integers."""
    is_single = not isinstance(layers, Iterable) or isinstance(layers, str)
    keys: list[str | int] = []
    for layer in [layers] if is_single or _integer(layers) is not None else layers:
        key = layer if isinstance(layer, str) else _integer(layer)
        if key is None:
            raise ArgumentError(
                argument,
                expected="a name or a number of a layer",
                got=repr(layer),
                remedy="pass a string, or an integer from 0",
            )
        keys.append(key)
    return keys


def _integer(value: Any) -> int | None:
    """Return an integer of Python, NumPy or PyTorch as int; None for booleans and other types."""
    if isinstance(value, bool | np.bool_) or getattr(value, "dtype", None) is torch.bool:
        return None
    try:
        return index(value)
    except TypeError:
        return None


def numbered_layer(number: int, names: Sequence[str], argument: str) -> str:
    """Return the name of the layer with this number, counted from 0."""
    if 0 <= number < len(names):
        return names[number]
    raise ArgumentError(
        argument,
        expected=f"the number of a layer, from 0 to {len(names) - 1}",
        got=str(number),
        remedy="choose a layer that `edgewise heads` lists",
    )


def head_positions(heads: Iterable[int], numbers: Sequence[int], name: str) -> list[int]:
    """Return the positions of heads among the remaining heads ``numbers`` of the layer ``name``."""
    heads, positions = list(heads), {number: i for i, number in enumerate(numbers)}
    wrong = [head for head in heads if _integer(head) not in positions]
    if wrong:
        raise ArgumentError(
            "heads",
            expected=f"heads of {name}: {listed(numbers)}",
            got=listed(wrong),
            remedy=f"choose from the expected heads, or name another layer than {name}",
        )
    return [positions[int(head)] for head in heads]


def listed(numbers: Sequence[int]) -> str:
    """Format indices for an error, at most 12 of them."""
    shown = ", ".join(map(str, numbers[:12]))
    return f"{shown}, … ({len(numbers)})" if len(numbers) > 12 else shown or "none"
