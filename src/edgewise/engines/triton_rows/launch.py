"""Launch of Triton kernels: collecting their arguments, tile sizes and numbers of programs.

A kernel is compiled once for each combination of dtypes, number of heads, widths, tile sizes, score
function, alignment of pointers and strides, and arguments that are None. A graph of another size
never causes another compilation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise.engines.call import ACCUMULATORS
from edgewise.engines.triton_rows.layout import TritonSide

ELEMENTS = 512
"""Maximum number of elements in the tile of a program, half as many in float64. With one warp, this
is 16 per thread. Of 14 combinations of this number, ``LONG_ROWS`` and the number of warps, this one
had the lowest mean time of three layers on an H200."""
ACROSS = 128
"""Maximum number of elements (heads × width) of a node per program, if a head is not wider. Other
programs compute the other heads."""
LONG_ROWS = 2
"""Maximum number of long rows per program."""
MOST_SLOTS = 32
"""Maximum number of edges in a tile."""
MOST_WIDTH = 1024
"""Maximum width of a head, because its vectors are held in registers."""
ALIGNED = 16
"""The compiler loads 16 bytes at a time if strides are multiples of this number of elements."""


class Launch(NamedTuple):
    """Launch of a kernel: its name, number of programs, arguments, and warps per program."""

    kernel: str
    programs: int
    arguments: dict[str, Any]
    warps: int


_recorded: list[Launch] | None = None


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """Within this context, append all launches to the returned list instead of running them."""
    global _recorded  # noqa: PLW0603 - an operator has no argument for the state
    launches: list[Launch] = []
    _recorded = launches
    try:
        yield launches
    finally:
        _recorded = None


def padded(size: int) -> int:
    """Return the smallest power of two that is at least ``size``."""
    return 1 << max(size - 1, 0).bit_length()


@dataclass(frozen=True)
class Tiles:
    """Sizes of the tiles of a program."""

    heads: int
    block: int  # Number of heads per program.
    slots: int  # Number of edges that a program computes at a time.
    warps: int

    def groups(self, side: TritonSide) -> tuple[tuple[Tensor, int, int], ...]:
        """Return items, rows and slots per program, for the long and the short rows."""
        long = min(LONG_ROWS, self.slots)
        return (side.long, long, self.slots // long), (side.short, max(1, self.slots // 2), 1)

    @property
    def halved(self) -> Tiles:
        """Tiles with half as many edges, for a kernel that holds twice as many vectors."""
        return replace(self, slots=max(1, self.slots // 2))

    @staticmethod
    def of(heads: int, widest: int, dtype: torch.dtype) -> Tiles:
        """Return the tile sizes for ``heads`` heads; ``widest`` is the padded width of a head."""
        block = min(padded(heads), max(1, ACROSS // widest))
        size = block * widest
        most = ELEMENTS // (2 if dtype == torch.float64 else 1)
        slots = max(1, min(MOST_SLOTS, most // size))
        return Tiles(heads, block, slots, max(1, size // 256))

    @property
    def blocks(self) -> int:
        """Number of programs that together compute all heads of a row."""
        return -(-self.heads // self.block)


class Job:
    """Arguments of all kernels of a call by name; each kernel gets those that it declares."""

    def __init__(self, like: Tensor) -> None:
        self.like = like
        self.accumulator = ACCUMULATORS[like.dtype]
        self.arguments: dict[str, Any] = {"scale": 1.0, "slope": 0.0, "keep": 1.0}
        self.strides: dict[str, int] = {}

    def put(self, **arguments: Any) -> None:
        """Set arguments of the kernels to these values, without conversion."""
        self.arguments.update(arguments)

    def array(self, name: str, x: Tensor) -> Tensor:
        """Set the argument ``name`` to ``x``, made contiguous, and return ``x`` itself."""
        self.arguments[name] = x.resolve_neg().contiguous()
        return x

    def nodes(self, name: str, x: Tensor, prefix: str = "") -> None:
        """Set the argument ``name`` to ``x [B, N, H, D]`` or ``[N, H, D]``, and its strides."""
        x = x.resolve_neg()
        width = x.shape[-1]
        dense = (x.stride(-1) == 1 or width == 1) and (x.stride(-2) == width or x.shape[-2] == 1)
        x = x if dense else x.contiguous()
        prefix = prefix or name
        self.arguments[name] = x
        self.strides[f"{prefix}_node"] = x.stride(-3)
        self.strides[f"{prefix}_batch"] = x.stride(0) if x.dim() == 4 and x.shape[0] > 1 else 0

    def empty(self, *shape: int) -> Tensor:
        """Return an empty tensor of the accumulation dtype."""
        return torch.empty(shape, dtype=self.accumulator, device=self.like.device)

    def results(self, side: TritonSide, members: int, **sizes: int) -> None:
        """Allocate partial results of long rows; ``sizes`` are elements per piece."""
        if side.slots:
            self.put(slot_count=side.slots)
            self.put(**{name: self.empty(members, side.slots, n) for name, n in sizes.items()})

    def over_rows(
        self, kernel: str, side: TritonSide, members: int, tiles: Tiles, blocks: int
    ) -> None:
        """Run a kernel over all rows of ``side``, several of which share a program."""
        _, column, edge = side.tensors
        self.put(column=column, edge=edge, rows=side.rows, columns=side.columns)
        self.put(edges=side.edges, members=members)
        first = 0
        for items, rows, slots in tiles.groups(side):
            count = len(items)
            programs = -(-count // rows) * members
            item_range = {"items": items, "count": count, "first_program": first}
            self.run(kernel, programs * blocks, tiles, R=rows, E=slots, **item_range)
            first += programs

    def merge(
        self,
        kernel: str,
        side: TritonSide,
        members: int,
        tiles: Tiles,
        blocks: int,
        **arguments: Any,
    ) -> None:
        """Run a kernel that combines the partial results of rows that were cut into pieces."""
        self.put(members=members, rows=side.rows, slot_count=side.slots)
        programs = len(side.merges) * members * blocks
        self.run(kernel, programs, tiles, items=side.merges, **arguments)

    def merge_flat(
        self, kernel: str, side: TritonSide, members: int, slots: Any, out: Tensor
    ) -> None:
        """Combine the partial results in ``slots``, all elements of a row alike, into ``out``."""
        if side.slots:
            size = slots.shape[-1]
            block = min(padded(size), ELEMENTS)
            arguments = {"slots": slots, "out": out, "SIZE": size, "BLOCK": block}
            self.merge(kernel, side, members, Tiles(1, 1, 1, 1), -(-size // block), **arguments)

    def run(self, kernel: str, programs: int, tiles: Tiles, **arguments: Any) -> None:
        """Run ``programs`` programs of a kernel. Arguments that were not set are ``None`` or 0."""
        if not programs:
            return
        from edgewise.engines.triton_rows import kernels

        align = math.gcd(ALIGNED, *self.strides.values())
        values_by_name: Mapping[str, Any] = {
            **self.arguments,
            **{name: stride // align for name, stride in self.strides.items()},
            **arguments,
            "ALIGN": align,
            "BH": tiles.block,
            "ACC": kernels.ACCUMULATORS[self.accumulator],
        }
        absent = _absent(kernel)
        argument_values = list(map(values_by_name.get, absent, absent.values()))
        if _recorded is not None:
            arguments = dict(zip(absent, argument_values, strict=True))
            _recorded.append(Launch(kernel, programs, arguments, tiles.warps))
            return
        with _on(self.like.device):
            _launch(kernel, programs, argument_values, tiles.warps, self.like.device)


_compiled: dict[Any, Any] = {}
"""Compiled kernels, by what they were compiled for."""


@cache
def _absent(kernel: str) -> dict[str, int | None]:
    """Return the value of each argument of a kernel that is not set: 0 for numbers, or None."""
    from edgewise.engines.triton_rows import kernels

    names = getattr(kernels, kernel).arg_names
    return {name: 0 if name in kernels.NUMBERS else None for name in names}


def _launch(kernel: str, programs: int, values: list[Any], warps: int, on: torch.device) -> None:
    """Launch a kernel; Triton's search for a compiled kernel takes longer than a small graph."""
    kinds = [
        (x.dtype, x.data_ptr() % ALIGNED == 0) if isinstance(x, Tensor) else x
        for x, absent in zip(values, _absent(kernel).values(), strict=True)
        if absent is None
    ]
    key = (kernel, warps, on, *kinds)
    compiled = _compiled.get(key)
    if compiled is not None:
        compiled[(programs, 1, 1)](*values)
        return
    from edgewise.engines.triton_rows import kernels

    compiled = getattr(kernels, kernel)[(programs,)](*values, num_warps=warps)
    # The interpreter makes no kernel. For an AMD GPU, Triton also looks at the sizes of tensors.
    if compiled is not None and torch.version.hip is None:
        _compiled[key] = compiled


def _on(device: torch.device) -> AbstractContextManager[object]:
    """Return a context that makes this the current device, where Triton launches kernels."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
