"""Launch of Triton kernels: arguments by name, tiles, and programs.

A kernel is compiled once for each combination of dtypes, absent arguments, heads, widths, score and
alignment of pointers. The sizes of the graph never cause another compilation.
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
"""Number of elements of a tile: 32 per thread of a warp, which hides the latency of loads."""
ACROSS = 128
"""Number of elements of a node that a program handles; other programs handle further heads."""
MOST_SLOTS = 32
"""Maximum number of edges in a tile."""
MOST_WIDTH = 1024
"""Maximum width of a head, whose vectors are held in registers."""
ALIGNED = 16
"""The compiler loads 16 bytes at a time if strides are multiples of this number of elements."""


class Launch(NamedTuple):
    """Launch of a kernel: name, number of programs, arguments by name, and number of warps."""

    kernel: str
    programs: int
    arguments: dict[str, Any]
    warps: int


_recorded: list[Launch] | None = None


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """Record launches in a list instead of running them."""
    global _recorded  # noqa: PLW0603 - an operator has no argument for the state
    launches: list[Launch] = []
    _recorded = launches
    try:
        yield launches
    finally:
        _recorded = None


def padded(size: int) -> int:
    """Round up to a power of two."""
    return 1 << max(size - 1, 0).bit_length()


@dataclass(frozen=True)
class Tiles:
    """Sizes of the tiles of a program: ``block`` heads, and ``slots`` edges of a long row."""

    heads: int
    block: int
    slots: int
    warps: int

    @property
    def rows(self) -> int:
        """Number of short rows per program, limited because each row has separate sums."""
        return max(1, self.slots // 2)

    @property
    def halved(self) -> Tiles:
        """Smaller tiles, for a kernel that holds twice as many vectors in registers."""
        return replace(self, slots=max(1, self.slots // 2))

    @staticmethod
    def of(heads: int, widest: int, dtype: torch.dtype) -> Tiles:
        """Return the tiles for heads whose padded width is ``widest``."""
        block = min(padded(heads), max(1, ACROSS // widest))
        size = block * widest
        most = ELEMENTS // (2 if dtype == torch.float64 else 1)
        slots = max(1, min(MOST_SLOTS, most // size))
        return Tiles(heads, block, slots, max(1, size // 256))

    @property
    def blocks(self) -> int:
        """Number of programs for all heads of a row."""
        return -(-self.heads // self.block)


class Job:
    """Arguments of the kernels of a call, by name; each kernel gets the arguments that it takes."""

    def __init__(self, like: Tensor) -> None:
        self.like = like
        self.accumulator = ACCUMULATORS[like.dtype]
        self.arguments: dict[str, Any] = {"scale": 1.0, "slope": 0.0, "keep": 1.0}
        self.strides: dict[str, int] = {}

    def put(self, **arguments: Any) -> None:
        """Set arguments of the kernels without conversion."""
        self.arguments.update(arguments)

    def array(self, name: str, x: Tensor) -> Tensor:
        """Set an argument of the kernels to a contiguous copy of a tensor."""
        self.arguments[name] = x.resolve_neg().contiguous()
        return x

    def nodes(self, name: str, x: Tensor, prefix: str = "") -> None:
        """Set the arguments for a node tensor ``[B, N, H, D]`` or ``[N, H, D]`` and its strides."""
        x = x.resolve_neg()
        width = x.shape[-1]
        dense = (x.stride(-1) == 1 or width == 1) and (x.stride(-2) == width or x.shape[-2] == 1)
        x = x if dense else x.contiguous()
        prefix = prefix or name
        self.arguments[name] = x
        self.strides[f"{prefix}_node"] = x.stride(-3)
        self.strides[f"{prefix}_batch"] = x.stride(0) if x.dim() == 4 and x.shape[0] > 1 else 0

    def empty(self, *shape: int) -> Tensor:
        """Allocate memory in the accumulation dtype."""
        return torch.empty(shape, dtype=self.accumulator, device=self.like.device)

    def results(self, side: TritonSide, members: int, **sizes: int) -> None:
        """Allocate the slots of pieces; ``sizes`` are elements per slot, by argument name."""
        if side.slots:
            self.put(slot_count=side.slots)
            self.put(**{name: self.empty(members, side.slots, n) for name, n in sizes.items()})

    def over_rows(
        self, kernel: str, side: TritonSide, members: int, tiles: Tiles, blocks: int
    ) -> None:
        """Run a kernel over all rows of a side: long rows one by one, short rows in groups."""
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
        """Combine the partial results of each row that was split over several programs."""
        self.put(members=members, rows=side.rows, slot_count=side.slots)
        programs = len(side.merges) * members * blocks
        self.run(kernel, programs, tiles, items=side.merges, **own)

    def merge_flat(
        self, kernel: str, side: TritonSide, members: int, slots: Any, out: Tensor
    ) -> None:
        """Combine partial results by a kernel that treats all elements of a row in the same way."""
        if side.slots:
            size = slots.shape[-1]
            block = min(padded(size), ELEMENTS)
            own = {"slots": slots, "out": out, "SIZE": size, "BLOCK": block}
            self.merge(kernel, side, members, Tiles(1, 1, 1, 1), -(-size // block), **own)

    def run(self, kernel: str, programs: int, tiles: Tiles, **own: Any) -> None:
        """Run a number of programs of a kernel; arguments that were not set are ``None``."""
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
    """Return a context in which this is the current device, on which Triton launches kernels."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
