"""Edges sorted by row, checked once and divided into pieces of work: what the rows kernels read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ctypes import addressof, c_int32, c_int64, c_void_p, create_string_buffer
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from edgewise.dispatch_modes import disable_modes, while_tracing
from edgewise.engines.native import library
from edgewise.engines.native.operator import LARGEST, Fields
from edgewise.errors import ArgumentError
from edgewise.torch_internals import version_of

PIECE = 1024
"""Edges in a piece of work. A longer row is cut into pieces; the graph alone decides where."""


def sort_edges(row: Tensor, column: Tensor, rows: int, columns: int) -> tuple[Tensor, ...]:
    """``(pointer [rows + 1], column [E], edge [E])``, int32: the edges sorted by row.

    Edges of equal rows keep their order. Sorted input is recognised and only narrowed.

    Raises:
        ArgumentError: an index is out of range, or there are 2³¹ edges or nodes.

    """
    loaded = library.library()
    if loaded is None:
        raise library.NativeError(library.MISSING)
    edges = row.numel()
    if max(rows, columns, edges) >= LARGEST:
        raise too_large(rows, columns, edges)
    row, column = row.contiguous(), column.contiguous()
    pointer = torch.empty(rows + 1, dtype=torch.int32, device="cpu")
    sorted_column = torch.empty(edges, dtype=torch.int32, device="cpu")
    edge = torch.empty(edges, dtype=torch.int32, device="cpu")
    status = loaded.ew_sort(
        c_int64(rows),
        c_int64(columns),
        c_int64(edges),
        c_void_p(row.data_ptr()),
        c_void_p(column.data_ptr()),
        c_void_p(pointer.data_ptr()),
        c_void_p(sorted_column.data_ptr()),
        c_void_p(edge.data_ptr()),
    )
    if status:
        raise bad_layout(f"an edge outside of {rows} × {columns} nodes")
    return pointer, sorted_column, edge


def too_large(rows: int, columns: int, edges: int) -> ArgumentError:
    """The error of a graph that is too large for kernels that count in 32 bits."""
    return ArgumentError(
        "graph",
        expected="fewer than 2³¹ nodes and edges",
        got=f"{rows} × {columns} nodes, {edges} edges",
        remedy="divide the graph into parts",
    )


_sort_operator = torch.library.custom_op(
    "edgewise::sort_edges",
    sort_edges,
    mutates_args=(),
    device_types="cpu",
    schema="(Tensor row, Tensor column, int rows, int columns) -> (Tensor, Tensor, Tensor)",
)


@_sort_operator.register_fake
def _fake_sort(row: Tensor, _column: Tensor, rows: int, _columns: int) -> tuple[Tensor, ...]:
    sizes = rows + 1, row.numel(), row.numel()
    return tuple(row.new_empty(size, dtype=torch.int32) for size in sizes)


class SortedEdges:
    """The edges seen from one end, checked and divided for kernels of one kind.

    Attributes:
        tensors: pointer, column and edge, as :func:`sort_edges` gives them.
        rows: at this end.
        columns: nodes at the other.
        edges: in all rows.

    """

    tensors: list[Tensor]
    rows: int
    columns: int
    edges: int


class RowsSide(SortedEdges):
    """Edges sorted by row as the C++ kernels take them: the structure ``ew_side``.

    Attributes:
        slots: pieces of rows that are cut, each of which needs room for its part of the result.
        call_fields: what operators remember of calls on these edges, by their kind.

    """

    def __init__(self, tensors: Sequence[Tensor], columns: int) -> None:
        """For rows that may point to nodes below ``columns``.

        Raises:
            ArgumentError: pointers that fall, or an index out of range.

        """
        pointer, column, edge = self.tensors = list(tensors)
        self.call_fields: dict[Any, Fields] = {}
        loaded = library.library()
        assert loaded is not None
        for x in self.tensors:
            if x.dtype != torch.int32 or not x.is_contiguous() or x.dim() != 1:
                raise bad_layout("arrays that are not contiguous int32")
        if pointer.numel() < 1 or column.numel() != edge.numel():
            raise bad_layout("arrays of lengths that do not fit")
        self.rows, self.columns, self.edges = pointer.numel() - 1, columns, column.numel()
        sizes = (self.rows, columns, self.edges)
        starts = c_void_p(pointer.data_ptr())
        arrays = (starts, c_void_p(column.data_ptr()), c_void_p(edge.data_ptr()))
        if loaded.ew_check_side(*map(c_int64, sizes), *arrays):
            raise bad_layout("pointers that fall, or an index out of range")
        counts = (c_int64 * 4)()
        rows, piece = c_int64(self.rows), c_int32(PIECE)
        loaded.ew_divide(rows, starts, piece, None, None, counts)
        chunks, merges, self.slots, longest = counts
        self.chunk = torch.empty(chunks, 5, dtype=torch.int32, device="cpu")
        self.merge = torch.empty(merges, 3, dtype=torch.int32, device="cpu")
        work = (c_void_p(self.chunk.data_ptr()), c_void_p(self.merge.data_ptr()))
        loaded.ew_divide(rows, starts, piece, *work, counts)
        structure = library.structures()["ew_side"]
        values: dict[str, int] = {
            **structure.zeros,
            "rows": self.rows,
            "cols": columns,
            "edges": self.edges,
            "chunks": chunks,
            "merges": merges,
            "slots": self.slots,
            "longest": longest,
            "ptr": pointer.data_ptr(),
            "col": column.data_ptr(),
            "edge": edge.data_ptr(),
            "chunk": self.chunk.data_ptr(),
            "merge": self.merge.data_ptr(),
        }
        self.structure = create_string_buffer(
            structure.packed.pack(*values.values()), structure.size
        )
        self.address = addressof(self.structure)


Sides = SortedEdges | Sequence[Tensor]
"""The edges from one end; or their tensors, as an operator gets them."""


class RowsLayout:
    """The edges sorted by target, and (made when first asked for) sorted by source.

    Each side has ``(pointer [rows + 1], column [E], edge [E])`` of int32: row i has the places
    ``pointer[i]`` to ``pointer[i + 1]``; ``column`` is the node at the other end, ``edge`` the
    number of the edge in the caller's order.
    """

    def __init__(self, source: Tensor, target: Tensor, num_targets: int, num_sources: int) -> None:
        self.num_targets, self.num_sources, self.num_edges = num_targets, num_sources, len(source)
        self._source, self._target = source, target
        self.by_target = self.make_side(target, source, num_targets, num_sources)
        self._by_source: Sides | None = None

    def make_side(self, row: Tensor, column: Tensor, rows: int, columns: int) -> Sides:
        """A side; or its tensors, where compiled code makes it: checked when they exist."""
        if torch.compiler.is_compiling():
            return tuple(_sort_operator(row, column, rows, columns))
        with disable_modes():  # as a layout keeps what is made here
            return RowsSide(sort_edges(row, column, rows, columns), columns)

    @property
    def by_source(self) -> Sides:
        """For gradients of keys and values."""
        if not _sorts_by_source(self) or self._by_source is None:
            return self._sorted_by_source()
        return self._by_source

    def _sorted_by_source(self) -> Sides:
        return self.make_side(self._source, self._target, self.num_sources, self.num_targets)


@while_tracing
def _sorts_by_source(layout: RowsLayout) -> bool:
    """Sort, and keep it; not where compiled code itself makes the layout, which has no numbers."""
    if "_by_source" not in vars(layout):
        return False
    if layout._by_source is None:
        layout._by_source = layout._sorted_by_source()
    return True


_KNOWN = WeakTensorKeyDictionary()


def rows_side(given: Sides, columns: int) -> RowsSide:
    """The side itself, or that of tensors as an operator gets them.

    Those are checked and divided once; again only if one of them was replaced or written to.
    """
    if isinstance(given, RowsSide):
        return given
    assert not isinstance(given, SortedEdges)  # another kind's
    stamp = stamp_of(given, columns)
    known: tuple[object, RowsSide] | None = _KNOWN.get(given[0])
    if known is None or known[0] != stamp:
        with disable_modes():
            known = _KNOWN[given[0]] = stamp, RowsSide(given, columns)
    return known[1]


def stamp_of(tensors: Iterable[Tensor], columns: int) -> object:
    """Return a value that differs once one of the tensors was replaced or changed in place."""
    return columns, *((x.data_ptr(), version_of(x)) for x in tensors)


def bad_layout(got: str) -> ArgumentError:
    """The error of arrays that are no side."""
    return ArgumentError(
        "layout",
        expected="rows of edges with rising pointers and indices in range",
        got=got,
        remedy="make it with edgewise.engines.rows.layout.sort_edges",
    )


def num_rows(given: Sides) -> int:
    """How many rows there are, also where tensors have no numbers."""
    return given.rows if isinstance(given, SortedEdges) else given[0].shape[0] - 1


def num_edges(given: Sides) -> int:
    """How many edges there are, likewise."""
    return given.edges if isinstance(given, SortedEdges) else given[1].shape[0]
