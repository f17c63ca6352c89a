"""Graphs as the tiles kernels read them: ranges of sources, grouped by blocks of targets."""

from __future__ import annotations

from ctypes import c_int64
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgewise._utils.ragged import runs_and_positions
from edgewise.engines.native import library
from edgewise.engines.native.operator import Fields
from edgewise.engines.reference import EdgeLayout

TENSORS = ("row", "column", "block", "block_piece", "piece", "reach")
GRADIENT = ("tile", "chunk", "visit", "use", "merge")
"""Names of the tensors that only the backward pass reads."""


class TileRuns(NamedTuple):
    """Graph as R ranges of consecutive sources ("runs"), computed by ``schedule.py``.

    Nodes are reordered, so that each range is consecutive. A *row* is the new index of a target,
    and a *column* the new index of a source. ``None`` means that nodes keep their order, each row
    has one run, or all steps are 1.
    """

    # Of each run, [R]: columns from `start` to `stop - 1` (none if start >= stop), and first edge.
    start: Tensor
    stop: Tensor
    edge: Tensor
    # First row of each block of at most BLOCK rows, first column of each tile of at most TILE
    # columns, then the number of all.
    block: Tensor
    tile: Tensor
    # [units + 1, 3]: first block, first tile and first column of each unit. A unit is a range of
    # targets and the range of sources that only they attend to, such as one graph of a batch.
    unit: Tensor
    pairs: int  # Number of edges.
    row: Tensor | None = None  # Target of each row.
    column: Tensor | None = None  # Source of each column.
    pointer: Tensor | None = None  # [rows + 1], first run of each row.
    step: Tensor | None = None  # [R], difference of the edge indices of neighbours in a run.


@dataclass(frozen=True, eq=False)
class TilesLayout:
    """Graph as the C++ kernels read it: for each block of targets, pieces of ranges of sources.

    The comments on ``ew_tiles_args`` in ``abi.h`` describe the tensors.
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
    spanned: int = 0  # Number of computed pairs of target and source.
    brought: int = 0  # Number of loaded sources, summed over the blocks of targets.
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
        """Return the layout for the graph in which targets and sources have these new numbers."""
        row, column = _permuted(target_perm, self.row), _permuted(source_perm, self.column)
        return replace(self, row=row, column=column, call_fields={})

    def edges(self) -> EdgeLayout:
        """Return source and target of each edge, in the caller's order."""
        piece, reach = self.piece.long(), self.reach.long()
        piece_of_reach, position = runs_and_positions(piece[:, 4] - piece[:, 3])
        row = piece[piece_of_reach, 3] + position
        reach = reach[piece[piece_of_reach, 5] + position]
        run, position = runs_and_positions((reach[:, 1] - reach[:, 0]).clamp(min=0))
        column, row = reach[run, 0] + position, row[run]
        edge = reach[run, 2] + position * piece[piece_of_reach[run], 6]
        source = self.column[column].long() if self.column.numel() else column
        target = self.row[row].long() if self.row.numel() else row
        source, target = (torch.empty_like(edge).index_copy(0, edge, x) for x in (source, target))
        return EdgeLayout(source, target, int(self.block[-1]), int(self.tile[-1]))

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
        piece_arguments = rows, columns, blocks, runs.block.data_ptr(), pointer, *ends, step, first
        counts = (c_int64 * 4)()
        status = loaded.ew_tiles_pieces(*piece_arguments, None, None, counts)
        pieces, reaches, spanned, brought = counts
        piece, reach = _numbers((pieces, 8), (reaches, 3))
        pieces_at = piece.data_ptr()
        status = status or loaded.ew_tiles_pieces(
            *piece_arguments, pieces_at, reach.data_ptr(), counts
        )
        if status:
            raise library.NativeError(library.STATUS[status])

        units = len(runs.unit) - 1, runs.unit.data_ptr(), first, pieces_at
        counts = (c_int64 * 6)()
        status = loaded.ew_tiles_visits(*units, 0, None, None, None, None, counts)
        together, chunks, visits, uses, merges, _ = counts
        chunk, visit, use, merge = _numbers((chunks, 4), (visits, 4), (uses,), (merges, 3))
        visit_arrays = chunk.data_ptr(), visit.data_ptr(), use.data_ptr(), merge.data_ptr()
        status = status or loaded.ew_tiles_visits(*units, together, *visit_arrays, counts)
        if status:
            raise library.NativeError(library.STATUS[status])
        # Empty tensors mean that the nodes keep their order, because an operator's list of tensors
        # cannot contain None. torch.export.save fails for an empty slice of a larger tensor.
        empty = runs.block[:0].clone()
        row = empty if runs.row is None else runs.row
        column = empty if runs.column is None else runs.column
        tensors = row, column, runs.block, block_piece, piece, reach, runs.tile
        return cls(runs.pairs, *tensors, chunk, visit, use, merge, spanned, brought)


def _permuted(permutation: Tensor, nodes: Tensor) -> Tensor:
    return (permutation[nodes] if nodes.numel() else permutation).int()


def _numbers(*shapes: tuple[int, ...]) -> list[Tensor]:
    """Return empty int32 tensors; ``torch.jit.trace`` would record ``torch.empty``."""
    arrays = []
    for shape in shapes:  # A loop is faster than a comprehension up to Python 3.11.
        # torch.export.save fails for an array of NumPy without entries.
        if 0 in shape:
            arrays.append(torch.zeros(shape, dtype=torch.int32))
        else:
            arrays.append(torch.from_numpy(np.empty(shape, np.int32)))
    return arrays
