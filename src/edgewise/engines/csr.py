"""Edges sorted by row: the layout of the rows engine, checked and divided into pieces of work."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int32, c_int64, c_void_p

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from edgewise.engines import native
from edgewise.errors import ArgumentError
from edgewise.modes import outside_modes

PIECE = 1024
"""Edges in a piece of work. A longer row is cut into pieces; the graph alone decides where."""

LARGEST = 2**31 - 1


def sort_edges(row: Tensor, column: Tensor, rows: int, columns: int) -> tuple[Tensor, ...]:
    """``(pointer [rows + 1], column [E], edge [E])``, int32: the edges sorted by row.

    Edges of equal rows keep their order. Sorted input is recognised and only narrowed.

    Raises:
        ArgumentError: an index is out of range, or there are 2³¹ edges or nodes.

    """
    if torch.compiler.is_compiling():
        return tuple(_sort_operator(row, column, rows, columns))
    return _sort(row, column, rows, columns)


def _sort(row: Tensor, column: Tensor, rows: int, columns: int) -> tuple[Tensor, ...]:
    loaded = native.library()
    if loaded is None:
        raise native.NativeError(native.MISSING)
    if max(rows, columns, row.numel()) >= LARGEST:
        raise ArgumentError(
            "graph",
            expected="fewer than 2³¹ nodes and edges",
            got=f"{rows} × {columns} nodes, {row.numel()} edges",
            remedy="divide the graph into parts",
        )
    with outside_modes():  # as a layout keeps what is made here
        row, column = row.contiguous(), column.contiguous()
        pointer, sorted_column, edge = (
            torch.empty(size, dtype=torch.int32, device="cpu")
            for size in (rows + 1, row.numel(), row.numel())
        )
    status = loaded.ew_sort(
        *map(c_int64, (rows, columns, row.numel())),
        *(c_void_p(x.data_ptr()) for x in (row, column, pointer, sorted_column, edge)),
    )
    if status:
        raise _bad_layout(f"an edge outside of {rows} × {columns} nodes")
    return pointer, sorted_column, edge


_sort_operator = torch.library.custom_op(
    "edgewise::sort_edges",
    _sort,
    mutates_args=(),
    device_types="cpu",
    schema="(Tensor row, Tensor column, int rows, int columns) -> (Tensor, Tensor, Tensor)",
)


@_sort_operator.register_fake
def _fake_sort(row: Tensor, _column: Tensor, rows: int, _columns: int) -> tuple[Tensor, ...]:
    sizes = rows + 1, row.numel(), row.numel()
    return tuple(row.new_empty(size, dtype=torch.int32) for size in sizes)


class Prepared:
    """A checked side with its division: what the kernels read, kept as long as its pointer."""

    def __init__(self, side: Sequence[Tensor], columns: int) -> None:
        pointer, column, edge = side
        self.stamp = _stamp(side, columns)
        loaded = native.library()
        assert loaded is not None
        if any(x.dtype != torch.int32 or not x.is_contiguous() or x.dim() != 1 for x in side):
            raise _bad_layout("arrays that are not contiguous int32")
        if pointer.numel() < 1 or column.numel() != edge.numel():
            raise _bad_layout("arrays of lengths that do not fit")
        sizes = (pointer.numel() - 1, columns, column.numel())
        arrays = [c_void_p(x.data_ptr()) for x in side]
        if loaded.ew_check_side(*map(c_int64, sizes), *arrays):
            raise _bad_layout("pointers that fall, or an index out of range")
        counts = (c_int64 * 4)()
        rows, piece = c_int64(sizes[0]), c_int32(PIECE)
        loaded.ew_divide(rows, arrays[0], piece, None, None, counts)
        chunks, merges, slots, longest = counts
        with outside_modes():
            self.chunk = torch.empty(chunks, 5, dtype=torch.int32, device="cpu")
            self.merge = torch.empty(merges, 3, dtype=torch.int32, device="cpu")
        work = (c_void_p(self.chunk.data_ptr()), c_void_p(self.merge.data_ptr()))
        loaded.ew_divide(rows, arrays[0], piece, *work, counts)
        addresses = [x.data_ptr() for x in (*side, self.chunk, self.merge)]
        self.side = native.Side(*sizes, chunks, merges, slots, longest, 0, *addresses)
        self.pointer = ctypes.pointer(self.side)


_PREPARED = WeakTensorKeyDictionary()


def prepared(side: Sequence[Tensor], columns: int) -> Prepared:
    """Check and divide a side once; again only if one of its arrays was replaced or written to.

    Raises:
        ArgumentError: pointers that fall, or an index out of range.

    """
    known: Prepared | None = _PREPARED.get(side[0])
    if known is None or known.stamp != _stamp(side, columns):
        known = _PREPARED[side[0]] = Prepared(side, columns)
    return known


def _stamp(side: Sequence[Tensor], columns: int) -> tuple[int, ...]:
    state = [(x.data_ptr(), 0 if x.is_inference() else x._version) for x in side]
    return (columns, *(number for pair in state for number in pair))


def _bad_layout(got: str) -> ArgumentError:
    return ArgumentError(
        "layout",
        expected="rows of edges with rising pointers and indices in range",
        got=got,
        remedy="make it with edgewise.engines.csr.sort_edges",
    )
