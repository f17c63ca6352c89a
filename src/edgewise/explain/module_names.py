"""Names of the modules that make attention calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from edgewise.errors import ArgumentError
from edgewise.interception import Interceptor, intercepting


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

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Activate an interceptor for the calls of a model in this context."""
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

        # Hooks of a ScriptModule would have to be compiled.
        if isinstance(module, torch.jit.ScriptModule):
            return
        stack.callback(module.register_forward_pre_hook(enter).remove)
        stack.callback(module.register_forward_hook(leave, always_call=True).remove)


def model_of(model: Any) -> nn.Module:
    """Return the module of a model or run.

    Raises:
        ArgumentError: the argument is neither a module nor a run.
    """
    module = model if isinstance(model, nn.Module) else getattr(model, "model", None)
    if isinstance(module, nn.Module):
        return module
    raise ArgumentError(
        "model",
        expected="a torch.nn.Module, or a run of edgewise.load",
        got=type(model).__name__,
        remedy="load a run folder with edgewise.load",
    )


def listed(numbers: list[int]) -> str:
    """Format indices for an error, at most 12 of them."""
    shown = ", ".join(map(str, numbers[:12]))
    return f"{shown}, … ({len(numbers)})" if len(numbers) > 12 else shown or "none"
