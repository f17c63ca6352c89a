"""Blocks of a mask that are certainly empty or full, without evaluating their pairs.

The mask function is run once on stand-ins for the indices of a block, which are ranges of integers.
Each operation returns a range that contains all results, and each comparison whether it may hold
for a pair and whether it holds for all. A function with any other operation is evaluated on pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from edgewise.interop.flex.pairs import PairFunction
from edgewise.interop.flex.score_mods import StandIn, UnrecognisedError


class Range(StandIn):
    """Integers or other numbers from ``low`` to ``high``, for each block."""

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__(low.dtype, low.device)
        self.low, self.high = low, high

    def __add__(self, other: Any) -> Range:
        other = _range(other)
        return Range(self.low + other.low, self.high + other.high)

    __radd__ = __add__

    def __neg__(self) -> Range:
        return Range(-self.high, -self.low)

    def __sub__(self, other: Any) -> Range:
        return self + -_range(other)

    def __rsub__(self, other: Any) -> Range:
        return -self + _range(other)

    def __mul__(self, other: Any) -> Range:
        other = _range(other)
        ends = [x * y for x in (self.low, self.high) for y in (other.low, other.high)]
        return Range(_extreme(torch.minimum, *ends), _extreme(torch.maximum, *ends))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Range:
        return Range(self.low // _positive(other), self.high // other)

    def __mod__(self, other: Any) -> Range:
        is_short = self.low // _positive(other) == self.high // other
        low = torch.where(is_short, self.low % other, 0)
        return Range(low, torch.where(is_short, self.high % other, other - 1))

    def __abs__(self) -> Range:
        low = torch.maximum(self.low, -self.high).clamp(min=0)
        return Range(low, torch.maximum(-self.low, self.high))

    def __ge__(self, other: Any) -> Truth:
        other = _range(other)
        return Truth(self.high >= other.low, self.low >= other.high)

    def __le__(self, other: Any) -> Truth:
        return _range(other) >= self

    def __lt__(self, other: Any) -> Truth:
        return ~(self >= _range(other))

    def __gt__(self, other: Any) -> Truth:
        return ~(self <= _range(other))

    def __eq__(self, other: object) -> Any:
        return (self >= other) & (self <= other)

    def __ne__(self, other: object) -> Any:
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]

    def abs(self) -> Range:
        return abs(self)

    def clamp(self, min: Any = None, max: Any = None) -> Range:
        return Range(self.low.clamp(min, max), self.high.clamp(min, max))

    def entries_of(self, table: Tensor) -> Range | Truth:
        """Return the range of ``table [N]`` at these indices."""
        if table.dtype == torch.bool:
            entries = self.entries_of(table.int())
            assert isinstance(entries, Range)
            return Truth(entries.high > 0, entries.low > 0)
        # Smaller integers may overflow, and floats may be NaN.
        is_supported = table.dim() == 1 and table.dtype in (torch.int32, torch.int64)
        if not is_supported or not table.numel() or bool((self.low < 0).any()):
            raise UnrecognisedError
        first, last = (x.clamp(max=len(table) - 1) for x in (self.low, self.high))
        # Level k has the extremes of 2^k entries; two overlapping windows cover a range.
        low, high = [table], [table]
        while 2 ** len(low) <= len(table):
            half = 2 ** (len(low) - 1)
            low.append(torch.minimum(low[-1][:-half], low[-1][half:]))
            high.append(torch.maximum(high[-1][:-half], high[-1][half:]))
        level = (last - first + 1).double().log2().floor().long()
        size = torch.tensor([len(x) for x in low], device=table.device)
        begin = (size.cumsum(0) - size)[level]
        windows = begin + first, begin + last + 1 - 2**level
        lows, highs = torch.cat(low), torch.cat(high)
        return Range(
            torch.minimum(*(lows[x] for x in windows)), torch.maximum(*(highs[x] for x in windows))
        )


class Truth(StandIn):
    """Condition that may hold for a pair of a block (``some``), and that holds for all of them."""

    def __init__(self, some: Tensor, every: Tensor) -> None:
        super().__init__(torch.bool, some.device)
        self.some, self.every = some, every

    def __and__(self, other: Any) -> Truth:
        other = _truth(other)
        return Truth(self.some & other.some, self.every & other.every)

    __rand__ = __and__

    def __or__(self, other: Any) -> Truth:
        other = _truth(other)
        return Truth(self.some | other.some, self.every | other.every)

    __ror__ = __or__

    def __invert__(self) -> Truth:
        return Truth(~self.every, ~self.some)


class _Lookups(TorchFunctionMode):
    """Mode in which ``x[i]`` accepts a range as index."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is Tensor.__getitem__ and isinstance(args[1], Range):
            return args[1].entries_of(args[0])
        return func(*args, **(kwargs or {}))


def truth_of_blocks(
    mask_mod: PairFunction,
    group: tuple[int, int],
    starts: tuple[Tensor, Tensor],
    last: tuple[Tensor, Tensor],
) -> Truth | None:
    """Return the truth of a mask in blocks ``[rows, columns]``, or None if it is not recognised.

    Args:
        mask_mod: function of a pair.
        group: batch index and head.
        starts: first query of each row of blocks, and first key of each column.
        last: last query of each row of blocks, and last key of each column.
    """
    b, h = (torch.tensor(i, device=starts[0].device) for i in group)
    q, kv = Range(starts[0][:, None], last[0][:, None]), Range(starts[1], last[1])
    try:
        with _Lookups():
            return _truth(mask_mod(b, h, q, kv))
    # A function may also call functions that know nothing of the stand-ins.
    except (UnrecognisedError, TypeError, IndexError):
        return None


def _range(value: Any) -> Range:
    if isinstance(value, Range):
        return value
    if isinstance(value, StandIn) or (isinstance(value, Tensor) and value.dim()):
        raise UnrecognisedError
    return Range(*[torch.as_tensor(value)] * 2)


def _truth(value: Any) -> Truth:
    if isinstance(value, Truth):
        return value
    if isinstance(value, StandIn) or (isinstance(value, Tensor) and value.dim()):
        raise UnrecognisedError
    return Truth(*[torch.as_tensor(value, dtype=torch.bool)] * 2)


def _positive(value: Any) -> int:
    if not isinstance(value, int) or value < 1:
        raise UnrecognisedError
    return value


def _extreme(choose: Callable[[Tensor, Tensor], Tensor], first: Tensor, *others: Tensor) -> Tensor:
    for other in others:
        first = choose(first, other)
    return first
