"""Graphs as the tiles kernels read them: ranges of sources, grouped by blocks of targets."""

from __future__ import annotations

from ctypes import c_int64
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgewise.engines.native import library
from edgewise.engines.native.operator import Fields

TENSORS = ("row", "column", "block", "block_piece", "piece", "reach")
GRADIENT = ("tile", "chunk", "visit", "use", "merge")
"""Names of the tensors that only the backward pass reads."""


class TileRuns(NamedTuple):
    """Graph as R ranges of consecutive sources ("runs"), computed by ``schedule.py``.

    Nodes are reordered, so that each range is consecutive. A *row* is the new index of a target,
    and a *column* the new index of a source.

    Attributes:
        start, stop: ``[R]``, int64: a run has the columns from ``start`` to ``stop - 1``; it is
            empty if ``start >= stop``.
        edge: ``[R]``, int64, index of the first edge of each run.
        block: ``[blocks + 1]``, int32: rows are divided into blocks of at most
            ``TilesLayout.BLOCK`` rows; first row of each block, then the number of rows.
        tile: ``[tiles + 1]``, int32: columns are divided into tiles of at most
            ``TilesLayout.TILE`` columns; first column of each tile, then the number of columns.
        unit: ``[units + 1, 3]``, int32, first block, first tile and first column of each unit. A
            unit is a range of targets and the range of sources that only they attend to, such as
            one graph of a packed batch.
        pairs: number of edges.
        row, column: int32, target of each row and source of each column; ``None`` if the nodes keep
            their order.
        pointer: ``[rows + 1]``, int64, first run of each row; ``None`` if each row has one run.
        step: ``[R]``, int64, difference of the edge indices of neighbouring sources in a run;
            ``None`` if this is always 1.

    """

    start: Tensor
    stop: Tensor
    edge: Tensor
    block: Tensor
    tile: Tensor
    unit: Tensor
    pairs: int
    row: Tensor | None = None
    column: Tensor | None = None
    pointer: Tensor | None = None
    step: Tensor | None = None


@dataclass(frozen=True, eq=False)
class TilesLayout:
    """Graph as the C++ kernels read it: for each block of targets, pieces of ranges of sources.

    The comments on ``ew_tiles_args`` in ``abi.h`` describe the tensors in detail.

    Attributes:
        pairs: number of edges, which determines the number of threads.
        row, column, block: as in :class:`TileRuns`; row and column are empty if the nodes keep
            their order.
        block_piece: ``[blocks + 1]``, index of the first piece of each block.
        piece, reach: ranges of sources, and the part of each range that each row attends to.
        tile, chunk, visit, use, merge: order of the work in the backward pass.
        spanned: number of pairs of target and source that are computed, with or without an edge.
        brought: number of sources that are loaded, summed over the blocks of targets.
        call_fields: cached fields of the operator's C structure, for each combination of shapes
            and dtype.

    """

    BLOCK: ClassVar[int] = 64
    TILE: ClassVar[int] = 128

    pairs: int
    row: Tensor
    column: Tensor
    block: Tensor
    block_piece: Tensor
    piece: Tensor
    reach: Tensor
    tile: Tensor
    chunk: Tensor
    visit: Tensor
    use: Tensor
    merge: Tensor
    spanned: int = 0
    brought: int = 0
    call_fields: dict[Any, Fields] = field(default_factory=dict, repr=False)

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, in the order of the attributes."""
        return [getattr(self, name) for name in (*TENSORS, *GRADIENT)]

    @property
    def slots(self) -> int:
        """Number of buffers for the gradients of tiles to which several chunks of work add."""
        return int(self.merge[-1, 2]) if len(self.merge) else 0

    def permuted(self, target_perm: Tensor, source_perm: Tensor) -> TilesLayout:
        """Return the layout for the renumbered graph.

        Args:
            target_perm: new number of each target.
            source_perm: new number of each source.
        """
        row, column = _at(target_perm, self.row), _at(source_perm, self.column)
        return replace(self, row=row, column=column, call_fields={})

    @classmethod
    def of(cls, runs: TileRuns) -> TilesLayout:
        """Return the layout for these runs, computed by the library of C++ kernels."""
        loaded = library.library()
        if loaded is None:
            raise library.NativeError(library.MISSING)
        rows, columns, blocks = int(runs.block[-1]), int(runs.tile[-1]), len(runs.block) - 1
        ends = runs.start.data_ptr(), runs.stop.data_ptr(), runs.edge.data_ptr()
        pointer = None if runs.pointer is None else runs.pointer.data_ptr()
        step = None if runs.step is None else runs.step.data_ptr()
        (block_piece,) = _numbers((blocks + 1,))
        first = block_piece.data_ptr()
        given = rows, columns, blocks, runs.block.data_ptr(), pointer, *ends, step, first
        counts = (c_int64 * 4)()
        status = loaded.ew_tiles_pieces(*given, None, None, counts)
        pieces, reaches, spanned, brought = counts
        piece, reach = _numbers((pieces, 8), (reaches, 3))
        pieces_at = piece.data_ptr()
        status = status or loaded.ew_tiles_pieces(*given, pieces_at, reach.data_ptr(), counts)
        if status:
            raise library.NativeError(library.STATUS[status])

        units = len(runs.unit) - 1, runs.unit.data_ptr(), first, pieces_at
        counts = (c_int64 * 6)()
        status = loaded.ew_tiles_visits(*units, 0, None, None, None, None, counts)
        together, chunks, visits, uses, merges, _ = counts
        chunk, visit, use, merge = _numbers((chunks, 4), (visits, 4), (uses,), (merges, 3))
        made = chunk.data_ptr(), visit.data_ptr(), use.data_ptr(), merge.data_ptr()
        status = status or loaded.ew_tiles_visits(*units, together, *made, counts)
        if status:
            raise library.NativeError(library.STATUS[status])
        # Empty tensors mean that the nodes keep their order, because an operator's list of tensors
        # cannot contain None.
        empty = runs.block[:0]
        row = empty if runs.row is None else runs.row
        column = empty if runs.column is None else runs.column
        parts = row, column, runs.block, block_piece, piece, reach, runs.tile
        return cls(runs.pairs, *parts, chunk, visit, use, merge, spanned, brought)


def _at(node: Tensor, place: Tensor) -> Tensor:
    return (node[place] if place.numel() else node).int()


def _numbers(*shapes: tuple[int, ...]) -> list[Tensor]:
    """Return empty int32 tensors of these shapes.

    They are made by NumPy, because ``torch.jit.trace`` would record ``torch.empty``.
    """
    made = []
    for shape in shapes:  # A loop is faster than a comprehension up to Python 3.11.
        made.append(torch.from_numpy(np.empty(shape, np.int32)))
    return made
