"""Graphs as the Triton kernels read them: edges sorted by row and divided into programs.

A row is a target if the edges are sorted by target, and a source if they are sorted by source.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from edgewise._utils.dispatch_modes import disable_modes
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import starts
from edgewise.engines.native.operator import BAD_CLASS, LARGEST
from edgewise.engines.rows.layout import (
    RowsLayout,
    Sides,
    SortedEdges,
    bad_layout,
    cached_side,
    too_large,
)

SHORT = 8
"""Rows with at most this number of edges are short: several of them share a program, which computes
one edge of each at a time."""
PIECE = 512
"""Rows with more than this number of edges are cut into pieces of this size. The results of the
pieces of a row are merged in order."""


def sort_edges(row: Tensor, column: Tensor, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sort edges by row like :func:`edgewise.engines.rows.layout.sort_edges`, without waiting."""
    sorted_row, edge = torch.sort(row, stable=True)
    bounds = torch.arange(rows + 1, device=row.device, dtype=sorted_row.dtype)
    pointer = torch.searchsorted(sorted_row, bounds, out_int32=True)
    return pointer, column[edge].int(), edge.int()


class TritonSide(SortedEdges):
    """Sorted edges for the Triton kernels, divided into programs. The host waits for the GPU once.

    A *slot* is the memory for the partial result of a piece of a row.
    """

    def __init__(self, tensors: Sequence[Tensor], columns: int) -> None:
        """Check the sorted edges and divide them into programs."""
        super().__init__(tensors, columns)
        degree = self.tensors[0].diff()
        pieces = (degree + (PIECE - 1)) // PIECE
        facts = torch.stack(
            [
                (degree <= SHORT).sum(),
                (degree > PIECE).sum(),
                (pieces * (degree > PIECE)).sum(),
                self._wrong(degree).sum(),
            ]
        )
        short, cut, self.slots, wrong = facts.tolist()  # This is the only transfer to the host.
        if wrong:
            raise bad_layout("decreasing pointers, or an index out of range")
        # Sort short rows by degree, but longer rows only by the logarithm of the degree, so that
        # neighbours in the graph stay near each other.
        size = torch.where(
            degree <= SHORT, degree, SHORT + (degree.clamp(min=1).double().log2() + 1).int()
        )
        size = torch.where(degree > PIECE, SHORT + 64, size)
        order = torch.sort(size, stable=True, descending=True).indices
        long, rest = order[: self.rows - short], order[self.rows - short :]
        # Rows of at most SHORT edges, by decreasing degree: row, first edge, last edge + 1 and -1.
        self.short = self._items(rest, torch.ones_like(rest), short, 0)
        # The same for pieces of longer rows; the last number is a slot, or -1 for a whole row.
        self.long = self._items(long, pieces[long].long(), len(long) - cut + self.slots, self.slots)
        stop = pieces[order[:cut]].long().cumsum(0)
        start = stop - pieces[order[:cut]]
        # For each row that is cut: row, first slot, and last slot + 1.
        self.merges = torch.stack([order[:cut], start, stop], 1).int()
        self._row: Tensor | None = None

    @property
    def row(self) -> Tensor:
        """Row of each sorted edge, ``[E]``."""
        if self._row is None:
            rows = torch.arange(self.rows, device=self.tensors[0].device, dtype=torch.int32)
            degree = self.tensors[0].diff()
            self._row = rows.repeat_interleave(degree, output_size=self.edges)
        return self._row

    def _wrong(self, degree: Tensor) -> Tensor:
        """Return three booleans, True for an invalid pointer, column or edge tensor."""
        pointer, column, edge = self.tensors
        return torch.stack(
            [
                (pointer[0] != 0) | (pointer[-1] != self.edges) | (degree < 0).any(),
                ((column < 0) | (column >= self.columns)).any(),
                ((edge < 0) | (edge >= self.edges)).any(),
            ]
        )

    def _items(self, row: Tensor, pieces: Tensor, count: int, slots: int) -> Tensor:
        """Return row, first edge, last edge + 1 and slot (of the first ``slots``) of each piece."""
        number = torch.arange(count, device=row.device)
        of = torch.repeat_interleave(pieces, output_size=count)
        rank = number - starts(pieces)[of]
        pointer = self.tensors[0]
        begin = pointer[row[of]] + rank * PIECE
        end = pointer[row[of] + 1].long()
        if slots:
            end = torch.minimum(end, begin + PIECE)
        slot = number.masked_fill(number >= slots, -1)
        return torch.stack([row[of], begin, end, slot], 1).int()


class TritonLayout(RowsLayout):
    """Edges sorted by target and by source, for the Triton kernels."""

    def make_side(self, row: Tensor, column: Tensor, rows: int, columns: int) -> Sides:
        if max(rows, columns, row.numel()) >= LARGEST:
            raise too_large(rows, columns, row.numel())
        if torch.compiler.is_compiling():
            return sort_edges(row, column, rows)
        with disable_modes(row.device):
            return TritonSide(sort_edges(row, column, rows), columns)


_SIDES = WeakTensorKeyDictionary()


def triton_side(edges: Sides, columns: int) -> TritonSide:
    """Return sorted edges for the Triton kernels, cached for a list of tensors."""
    if isinstance(edges, TritonSide):
        return edges
    assert not isinstance(edges, SortedEdges)
    return cached_side(_SIDES, edges, columns, lambda: TritonSide(edges, columns))


def classes_of(index: Tensor, classes: int) -> TritonSide:
    """Return the edges sorted by class, cached; raise IndexError if a class is out of range."""

    def make() -> TritonSide:
        edge = torch.arange(len(index), device=index.device)
        try:
            return TritonSide(sort_edges(index.long(), edge, classes), len(index))
        except ArgumentError as error:
            raise IndexError(BAD_CLASS) from error

    return cached_side(_SIDES, [index], classes, make)


assert SHORT < PIECE < LARGEST
