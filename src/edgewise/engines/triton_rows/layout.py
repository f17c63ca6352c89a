"""Edges sorted by row on their own device, and divided into what programs do."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from edgewise.dispatch_modes import persist_on
from edgewise.engines.native.operator import BAD_CLASS, LARGEST
from edgewise.engines.rows.layout import (
    RowsLayout,
    Sides,
    SortedEdges,
    bad_layout,
    stamp_of,
    too_large,
)
from edgewise.errors import ArgumentError
from edgewise.ragged import starts

SHORT = 8
"""Edges of a row that shares its program with others."""
PIECE = 512
"""Edges in a piece of a longer row; a row of more is cut, and its pieces are merged in order."""


def sort_edges(row: Tensor, column: Tensor, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """``(pointer [rows + 1], column [E], edge [E])``, int32, without a trip to the host.

    Edges of equal rows keep their order.
    """
    sorted_row, edge = torch.sort(row, stable=True)
    bounds = torch.arange(rows + 1, device=row.device, dtype=sorted_row.dtype)
    pointer = torch.searchsorted(sorted_row, bounds, out_int32=True)
    return pointer, column[edge].int(), edge.int()


class TritonSide(SortedEdges):
    """Edges sorted by row as Triton's kernels take them: checked and divided into programs.

    Made once, which waits for the device.

    Attributes:
        short: ``[count, 4]`` of int32: row, first place, last place and -1 for rows of at most
            ``SHORT`` edges, the longest first, rows of one degree in their order.
        long: the same for longer rows, roughly the longest first; pieces of rows that are cut have
            the number of their slot in place of the -1.
        merges: ``[count, 3]``: row, first slot and last slot of each row that is cut.
        slots: how many pieces there are.

    """

    def __init__(self, tensors: Sequence[Tensor], columns: int) -> None:
        """For rows that may point to nodes below ``columns``.

        Raises:
            ArgumentError: pointers that fall, or an index out of range.

        """
        pointer, column, edge = self.tensors = list(tensors)
        for x in self.tensors:
            if x.dtype != torch.int32 or not x.is_contiguous() or x.dim() != 1:
                raise bad_layout("arrays that are not contiguous int32")
        if pointer.numel() < 1 or column.numel() != edge.numel():
            raise bad_layout("arrays of lengths that do not fit")
        self.rows, self.columns, self.edges = pointer.numel() - 1, columns, column.numel()
        degree = pointer.diff()
        pieces = (degree + (PIECE - 1)) // PIECE
        facts = torch.stack(
            [
                (degree <= SHORT).sum(),
                (degree > PIECE).sum(),
                (pieces * (degree > PIECE)).sum(),
                self._wrong(degree).sum(),
            ]
        )
        short, cut, self.slots, wrong = facts.tolist()  # the one trip to the host
        if wrong:
            raise bad_layout("pointers that fall, or an index out of range")
        # Short rows of one degree go side by side; of longer ones the power of two is enough, so
        # that neighbours stay near each other.
        size = torch.where(
            degree <= SHORT, degree, SHORT + (degree.clamp(min=1).double().log2() + 1).int()
        )
        size = torch.where(degree > PIECE, SHORT + 64, size)
        order = torch.sort(size, stable=True, descending=True).indices
        long, rest = order[: self.rows - short], order[self.rows - short :]
        self.short = self._items(rest, torch.ones_like(rest), short, 0)
        self.long = self._items(long, pieces[long].long(), len(long) - cut + self.slots, self.slots)
        stop = pieces[order[:cut]].long().cumsum(0)
        start = stop - pieces[order[:cut]]
        self.merges = torch.stack([order[:cut], start, stop], 1).int()
        self._row: Tensor | None = None

    @property
    def row(self) -> Tensor:
        """The row of each place ``[E]``."""
        if self._row is None:
            rows = torch.arange(self.rows, device=self.tensors[0].device, dtype=torch.int32)
            degree = self.tensors[0].diff()
            self._row = rows.repeat_interleave(degree, output_size=self.edges)
        return self._row

    def _wrong(self, degree: Tensor) -> Tensor:
        """Whether anything is: this is read before any kernel trusts it."""
        pointer, column, edge = self.tensors
        return torch.stack(
            [
                (pointer[0] != 0) | (pointer[-1] != self.edges) | (degree < 0).any(),
                ((column < 0) | (column >= self.columns)).any(),
                ((edge < 0) | (edge >= self.edges)).any(),
            ]
        )

    def _items(self, row: Tensor, pieces: Tensor, count: int, slots: int) -> Tensor:
        """An item for each piece of each of these rows; the first ``slots`` of them have slots."""
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
    """As the base class, on any device, for the kernels in Triton."""

    def make_side(self, row: Tensor, column: Tensor, rows: int, columns: int) -> Sides:
        if max(rows, columns, row.numel()) >= LARGEST:
            raise too_large(rows, columns, row.numel())
        if torch.compiler.is_compiling():
            return sort_edges(row, column, rows)
        with persist_on(row.device):
            return TritonSide(sort_edges(row, column, rows), columns)


_KNOWN = WeakTensorKeyDictionary()


def triton_side(given: Sides, columns: int) -> TritonSide:
    """The side itself, or that of tensors as an operator gets them.

    Those are checked and divided once; again only if one of them was replaced or written to.
    """
    if isinstance(given, TritonSide):
        return given
    assert not isinstance(given, SortedEdges)
    return _remembered(list(given), columns)


def classes_of(index: Tensor, classes: int) -> TritonSide:
    """Edges sorted by class, for sums over those of each class; once for every index.

    Raises:
        IndexError: there is no such class.

    """
    stamp = stamp_of([index], classes)
    known: tuple[object, TritonSide] | None = _KNOWN.get(index)
    if known is None or known[0] != stamp:
        with persist_on(index.device):
            edge = torch.arange(len(index), device=index.device)
            tensors = sort_edges(index.long(), edge, classes)
            try:
                known = _KNOWN[index] = stamp, TritonSide(tensors, len(index))
            except ArgumentError as error:
                raise IndexError(BAD_CLASS) from error
    return known[1]


def _remembered(tensors: list[Tensor], columns: int) -> TritonSide:
    stamp = stamp_of(tensors, columns)
    known: tuple[object, TritonSide] | None = _KNOWN.get(tensors[0])
    if known is None or known[0] != stamp:
        with persist_on(tensors[0].device):
            known = _KNOWN[tensors[0]] = stamp, TritonSide(tensors, columns)
    return known[1]


assert SHORT < PIECE < LARGEST
