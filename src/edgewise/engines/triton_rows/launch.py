"""From tensors to a kernel: its arguments by name, its tiles, and its programs.

A kernel is compiled once for each set of what is compiled in: types, the absence of arguments,
heads and widths, the score, and how pointers are aligned. Nothing of it follows from how many nodes
or edges a graph has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise.engines.native.library import ACCUMULATORS
from edgewise.engines.triton_rows.layout import TritonSide

ELEMENTS = 1024
"""Numbers of a tile, 32 a thread of one warp: so many vectors are under way at once."""
ACROSS = 128
"""Numbers of a node that a program takes; further heads are for other programs."""
MOST_SLOTS = 32
"""Edges in a tile."""
MOST_WIDTH = 1024
"""Of a head: its vectors are held in registers."""
ALIGNED = 16
"""Numbers; strides that are a multiple of so many let the compiler load 16 bytes at a time."""


class Launch(NamedTuple):
    """One launch: the kernel, its programs, all its arguments by name, and its warps."""

    kernel: str
    programs: int
    arguments: dict[str, Any]
    warps: int


_recorded: list[Launch] | None = None


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """Within this context nothing runs: what would have been launched is listed."""
    global _recorded  # noqa: PLW0603 - launches happen below operators, which take no such argument
    launches: list[Launch] = []
    _recorded = launches
    try:
        yield launches
    finally:
        _recorded = None


def padded(size: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(size - 1, 0).bit_length()


@dataclass(frozen=True)
class Tiles:
    """How heads and edges are divided: ``block`` heads at a time, and ``slots`` edges of a row."""

    heads: int
    block: int
    slots: int
    warps: int

    @property
    def rows(self) -> int:
        """Short rows of a program: fewer than edges, as each has vectors and sums of its own."""
        return max(1, self.slots // 2)

    @property
    def halved(self) -> Tiles:
        """For a kernel that holds twice as many vectors."""
        return replace(self, slots=max(1, self.slots // 2))

    @staticmethod
    def of(heads: int, widest: int, dtype: torch.dtype) -> Tiles:
        """For heads of this width, padded."""
        block = min(padded(heads), max(1, ACROSS // widest))
        size = block * widest
        most = ELEMENTS // (2 if dtype == torch.float64 else 1)
        slots = max(1, min(MOST_SLOTS, most // size))
        return Tiles(heads, block, slots, max(1, size // 256))

    @property
    def blocks(self) -> int:
        """Programs for all heads of a row."""
        return -(-self.heads // self.block)


class Job:
    """The arguments of launches by name; what a kernel does not have is left out of its call."""

    def __init__(self, like: Tensor) -> None:
        self.like = like
        self.accumulator = ACCUMULATORS[like.dtype]
        self.arguments: dict[str, Any] = {"scale": 1.0, "slope": 0.0, "keep": 1.0}
        self.strides: dict[str, int] = {}

    def put(self, **arguments: Any) -> None:
        """Arguments as they are."""
        self.arguments.update(arguments)

    def array(self, name: str, x: Tensor) -> Tensor:
        """A dense tensor."""
        self.arguments[name] = x.resolve_neg().contiguous()
        return x

    def nodes(self, name: str, x: Tensor, prefix: str = "") -> None:
        """``[B, N, H, D]`` or ``[N, H, D]`` with dense heads, and strides of members and nodes."""
        x = x.resolve_neg()
        width = x.shape[-1]
        dense = (x.stride(-1) == 1 or width == 1) and (x.stride(-2) == width or x.shape[-2] == 1)
        x = x if dense else x.contiguous()
        prefix = prefix or name
        self.arguments[name] = x
        self.strides[f"{prefix}_node"] = x.stride(-3)
        self.strides[f"{prefix}_batch"] = x.stride(0) if x.dim() == 4 and x.shape[0] > 1 else 0

    def empty(self, *shape: int) -> Tensor:
        """Memory in the type of accumulation."""
        return torch.empty(shape, dtype=self.accumulator, device=self.like.device)

    def results(self, side: TritonSide, members: int, **sizes: int) -> None:
        """Room for the pieces of rows that are cut, so many numbers each, by argument."""
        if side.slots:
            self.put(slot_count=side.slots)
            self.put(**{name: self.empty(members, side.slots, n) for name, n in sizes.items()})

    def over_rows(
        self, kernel: str, side: TritonSide, members: int, tiles: Tiles, blocks: int
    ) -> None:
        """Run a kernel over all rows of a side, the longest first, several short ones together."""
        _, column, edge = side.tensors
        self.put(column=column, edge=edge, rows=side.rows, columns=side.columns)
        self.put(edges=side.edges, members=members)
        first = 0
        for items, rows, slots in ((side.long, 1, tiles.slots), (side.short, tiles.rows, 1)):
            count = len(items)
            programs = -(-count // rows) * members
            own = {"items": items, "count": count, "first_program": first}
            self.run(kernel, programs * blocks, tiles, R=rows, E=slots, **own)
            first += programs

    def merge(
        self, kernel: str, side: TritonSide, members: int, tiles: Tiles, blocks: int, **own: Any
    ) -> None:
        """Merge the pieces of each row that was cut."""
        self.put(members=members, rows=side.rows, slot_count=side.slots)
        programs = len(side.merges) * members * blocks
        self.run(kernel, programs, tiles, items=side.merges, **own)

    def merge_flat(
        self, kernel: str, side: TritonSide, members: int, slots: Any, out: Tensor
    ) -> None:
        """The same for a kernel that treats all numbers of a row alike."""
        if side.slots:
            size = slots.shape[-1]
            block = min(padded(size), ELEMENTS)
            own = {"slots": slots, "out": out, "SIZE": size, "BLOCK": block}
            self.merge(kernel, side, members, Tiles(1, 1, 1, 1), -(-size // block), **own)

    def run(self, kernel: str, programs: int, tiles: Tiles, **own: Any) -> None:
        """Run so many programs of a kernel; arguments that nobody has put are absent."""
        if not programs:
            return
        from edgewise.engines.triton_rows import kernels

        align = math.gcd(ALIGNED, *self.strides.values())
        strides = {name: stride // align for name, stride in self.strides.items()}
        known: Mapping[str, Any] = {
            **dict.fromkeys(kernels.SIZES, 0),
            **self.arguments,
            **strides,
            **own,
            "ALIGN": align,
            "BH": tiles.block,
            "ACC": kernels.ACCUMULATORS[self.accumulator],
        }
        function = getattr(kernels, kernel)
        arguments = {name: known.get(name) for name in function.arg_names}
        if _recorded is not None:
            _recorded.append(Launch(kernel, programs, arguments, tiles.warps))
            return
        with _on(self.like.device):
            function[(programs,)](**arguments, num_warps=tiles.warps)


def _on(device: torch.device) -> AbstractContextManager[object]:
    """Kernels go to the current device, which need not be the tensors'."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
