"""Graphs as the rows kernels read them: edges sorted by row and divided into pieces of work.

A row is a target if the edges are sorted by target, and a source if they are sorted by source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import addressof, c_int32, c_int64, c_void_p, create_string_buffer
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from edgewise._utils.dispatch_modes import disable_modes, while_tracing
from edgewise._utils.errors import ArgumentError
from edgewise._utils.torch_internals import version_of
from edgewise.engines.native import library
from edgewise.engines.native.operator import LARGEST, Fields

S = TypeVar("S")

PIECE = 1024
"""Rows (targets or sources) with more edges are cut into pieces of at most this many edges."""


def sort_edges(row: Tensor, column: Tensor, rows: int, columns: int) -> tuple[Tensor, ...]:
    """Sort edges by row; return ``pointer [rows + 1]``, ``column [E]`` and ``edge [E]``, int32.

    This is the CSR format (see :class:`RowsLayout`). Edges of the same row keep their order. Raises
    ArgumentError if an index is out of range, or for 2³¹ - 1 or more edges or nodes.
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
    """Return the error for a graph that is too large for 32-bit indices."""
    return ArgumentError(
        "graph",
        expected="fewer than 2³¹ - 1 nodes and edges",
        got=f"{rows} and {columns} nodes, {edges} edges",
        remedy="split the graph into smaller graphs",
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
    """Edges sorted by target or by source, for the C++ or the Triton kernels."""

    def __init__(self, tensors: Sequence[Tensor], columns: int) -> None:
        pointer, column, edge = self.tensors = list(tensors)
        for x in self.tensors:
            if x.dtype != torch.int32 or not x.is_contiguous() or x.dim() != 1:
                raise bad_layout("arrays that are not contiguous int32")
        if pointer.numel() < 1 or column.numel() != edge.numel():
            raise bad_layout("an empty pointer, or column and edge arrays of different lengths")
        self.rows, self.columns, self.edges = pointer.numel() - 1, columns, column.numel()


class RowsSide(SortedEdges):
    """Sorted edges for the C++ kernels, as their structure ``ew_side``."""

    def __init__(self, tensors: Sequence[Tensor], columns: int) -> None:
        """Check the sorted edges and divide them into pieces of work."""
        super().__init__(tensors, columns)
        pointer, column, edge = self.tensors
        self.call_fields: dict[Any, Fields] = {}
        loaded = library.library()
        assert loaded is not None
        sizes = (self.rows, columns, self.edges)
        starts = c_void_p(pointer.data_ptr())
        arrays = (starts, c_void_p(column.data_ptr()), c_void_p(edge.data_ptr()))
        if loaded.ew_check_side(*map(c_int64, sizes), *arrays):
            raise bad_layout("decreasing pointers, or an index out of range")
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
"""Sorted edges, or only the list of their tensors: PyTorch's dispatcher cannot pass objects."""


class RowsLayout:
    """Edges sorted by target, and from the first use on also sorted by source.

    In CSR format, the edges of row i are the entries from ``pointer[i]`` to ``pointer[i + 1] - 1``
    of ``column [E]``, the node at the other end, and ``edge [E]``, the index in the caller's order.
    """

    def __init__(self, source: Tensor, target: Tensor, num_targets: int, num_sources: int) -> None:
        self.num_targets, self.num_sources, self.num_edges = num_targets, num_sources, len(source)
        self._transposed = source, target, num_sources, num_targets
        self.by_target = self.make_side(target, source, num_targets, num_sources)
        self._by_source: Sides | None = None

    def make_side(self, row: Tensor, column: Tensor, rows: int, columns: int) -> Sides:
        """Return the edges sorted by ``row``; in compiled code, only a list of their tensors."""
        if torch.compiler.is_compiling():
            return tuple(_sort_operator(row, column, rows, columns))
        # The layout keeps these tensors, so they must be valid in calls under other PyTorch modes.
        with disable_modes():
            return RowsSide(sort_edges(row, column, rows, columns), columns)

    @property
    def by_source(self) -> Sides:
        """Edges sorted by source, for the gradients of key and value."""
        if torch.compiler.is_compiling() and not _sort_while_tracing(self):
            return self.make_side(*self._transposed)
        if self._by_source is None:
            self._by_source = self.make_side(*self._transposed)
        return self._by_source


@while_tracing
def _sort_while_tracing(layout: RowsLayout) -> bool:
    """Sort the edges by source while tracing; False if the compiled code makes the layout."""
    if "_by_source" not in vars(layout):
        return False
    if layout._by_source is None:
        layout._by_source = layout.make_side(*layout._transposed)
    return True


_SIDES = WeakTensorKeyDictionary()


def rows_side(edges: Sides, columns: int) -> RowsSide:
    """Return sorted edges for the C++ kernels, cached for a list of tensors."""
    if isinstance(edges, RowsSide):
        return edges
    assert not isinstance(edges, SortedEdges)  # Only Triton's kernels take SortedEdges.
    return cached_side(_SIDES, edges, columns, lambda: RowsSide(edges, columns))


def cached_side(
    cache: WeakTensorKeyDictionary, tensors: Sequence[Tensor], columns: int, make: Callable[[], S]
) -> S:
    """Return the object cached for these tensors, or ``make()`` if one of them has changed."""
    versions = [(x.data_ptr(), version_of(x)) for x in tensors]
    entry: tuple[object, S] | None = cache.get(tensors[0])
    if entry is None or entry[0] != (columns, versions):
        with disable_modes(tensors[0].device):
            entry = cache[tensors[0]] = (columns, versions), make()
    return entry[1]


def bad_layout(got: str) -> ArgumentError:
    """Return the error for tensors that are not valid sorted edges; ``got`` says why."""
    return ArgumentError(
        "layout",
        expected="sorted edges: contiguous int32 tensors with a non-decreasing pointer and indices "
        "in range",
        got=got,
        remedy="create the tensors with edgewise.engines.rows.layout.sort_edges",
    )


def num_rows(edges: Sides) -> int:
    """Return the number of rows, also of meta tensors."""
    return edges.rows if isinstance(edges, SortedEdges) else edges[0].shape[0] - 1


def num_edges(edges: Sides) -> int:
    """Return the number of edges, also of meta tensors."""
    return edges.edges if isinstance(edges, SortedEdges) else edges[1].shape[0]
