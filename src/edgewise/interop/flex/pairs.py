"""Functions of one pair, ``(b, h, q_idx, kv_idx)``, evaluated on many pairs at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from edgewise._utils.torch_internals import version_of

PairFunction = Callable[..., Any]
"""Function of batch index, head, query index and key index, after a score if it is a score_mod."""


class Indices(NamedTuple):
    """Blocks of pairs: batch indices ``[B]``, heads ``[H]``, queries ``[n, R]``, keys ``[n, C]``.

    If masks differ, batch index or head may be that of each block, ``[n]``.
    """

    b: Tensor
    h: Tensor
    q: Tensor
    kv: Tensor


class _ScalarIndices(TorchFunctionMode):
    """Mode in which ``x[i]`` accepts indices that ``torch.vmap`` has batched.

    New constants do not depend on the index that creates them, as in ``b.new_ones(())`` of
    PyTorch's ``and_masks``, so that the result of a mask has stride 0 along that axis.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.__getitem__:
            x, index = args
            indices = list(index) if isinstance(index, tuple) else [index]
            while indices and indices[-1] == slice(None):
                indices.pop()
            is_index = all(isinstance(i, int | Tensor) and not isinstance(i, bool) for i in indices)
            if is_index and any(isinstance(i, Tensor) for i in indices):
                listed = [torch.as_tensor(i, device=x.device) for i in indices]
                return torch.ops.aten.index.Tensor(x, listed)
        if func in (Tensor.new_zeros, Tensor.new_ones):
            like, *sizes = args
            kwargs = {"dtype": like.dtype, "device": like.device, **kwargs}
            create = torch.zeros if func is Tensor.new_zeros else torch.ones
            return create(*sizes, **kwargs)
        return func(*args, **kwargs)


def on_pairs(
    function: PairFunction,
    indices: Indices,
    score: Tensor | None = None,
    *,
    by_batch: bool = False,
    by_head: bool = False,
) -> Any:
    """Evaluate a function on blocks of pairs, and return results ``[B, H, n, R, C]``.

    Args:
        function: function of scalar tensors ``(b, h, q_idx, kv_idx)``, or of a score and these.
        indices: indices of the pairs.
        score: scores of the pairs, with the shape of the result.
        by_batch: whether each block has a batch index; the result then has no axis B.
        by_head: whether each block has a head; the result then has no axis H.
    """
    # A result that does not depend on an axis has stride 0 along it.
    axes: list[tuple[int | None, ...]] = [(None, None, None, 0), (None, None, 0, None)]
    axes.append((0 if by_batch else None, 0 if by_head else None, 0, 0))
    axes += [] if by_head else [(None, 0, None, None)]
    axes += [] if by_batch else [(0, None, None, None)]
    prefix = () if score is None else (0,)
    for dims in axes:
        function = torch.vmap(function, (*prefix, *dims))
    with _ScalarIndices():
        return function(*(() if score is None else (score,)), *indices)


def axes_of(result: Tensor) -> str:
    """Return the axes, among "bhqk", on which a result ``[2, 2, 1, 2, 2]`` depends."""
    strides = zip("bh-qk", result.stride(), strict=True)
    return "".join(axis for axis, stride in strides if stride and axis != "-")


def probe(function: PairFunction, device: torch.device) -> Any:
    """Evaluate a function on 2 × 2 × 1 × 2 × 2 equal pairs; see :func:`axes_of`."""
    zeros = torch.zeros(2, dtype=torch.long, device=device)
    return on_pairs(function, Indices(zeros, zeros, zeros[None], zeros[None]))


def state_of(function: PairFunction) -> list[Any]:
    """Return a list that changes if a tensor or number that a function reads has changed.

    Closures, defaults, globals, and the attributes that the function names are searched.
    """
    return list(_state(function, frozenset(), set()))


class _Identity:
    """Object that equals only itself; it is kept, so that its address is not used again."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


def _state(value: Any, names: frozenset[str], seen: set[Any]) -> Iterator[Any]:
    """Yield the state of a value, of which a function reads the attributes ``names``."""
    if isinstance(value, Tensor):
        yield _Identity(value), version_of(value)
        return
    if isinstance(value, int | float | str):
        yield value
        return
    if isinstance(value, type | ModuleType) or (id(value), names) in seen:
        return
    seen.add((id(value), names))
    members: list[Any] = []
    if isinstance(value, FunctionType):
        names = frozenset(_names(value.__code__))
        members = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        members += [cell.cell_contents for cell in value.__closure__ or () if _is_set(cell)]
        members += [value.__globals__[name] for name in names & value.__globals__.keys()]
    elif isinstance(value, partial):
        members = [value.func, value.args, value.keywords]
    elif isinstance(value, MethodType):
        names = frozenset(_names(value.__func__.__code__))
        members = [value.__func__, value.__self__]
        yield _Identity(value.__self__)
    elif isinstance(value, dict):
        members = list(value.values())
    elif isinstance(value, list | tuple):
        members = list(value)
    elif hasattr(value, "__dict__"):
        is_module = isinstance(value, nn.Module)
        call = type(value).forward if is_module else getattr(type(value), "__call__", None)  # noqa: B004
        if isinstance(call, FunctionType) and not names:
            members, names = [call], frozenset(_names(call.__code__))
        tables = [vars(value)]
        if is_module:
            tables += [value._parameters, value._buffers, value._modules]
        members += [table[name] for table in tables for name in names & table.keys()]
    for member in members:
        yield from _state(member, names, seen)


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals that a function, or a function defined in it, reads."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # A recursive function may not be defined yet.
        return False
