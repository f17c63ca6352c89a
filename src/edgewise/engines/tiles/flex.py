"""The engine "tiles" on a GPU: FlexAttention with a block mask.

Each target attends to a few ranges of sources ("runs"). A run determines which blocks of 128 × 128
pairs it touches and how much of each block it covers, so the block mask is made without visiting
pairs. Fully covered blocks are computed without a mask. In other blocks, each pair is tested by
bisection among the runs of its target. Memory grows with the number of runs, and with the maximum
number of blocks that a block of targets attends to.

``torch.compile`` generates the kernels in the first call with new dtypes, numbers of heads or
widths. The kernels compiled for the second graph size support all further sizes. For tests without
a GPU, set ``EDGEWISE_FLEX=1`` before Python starts. FlexAttention then runs on CPU tensors, only
forward, with plain operations on all pairs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from edgewise._utils.ragged import boundaries, runs_and_positions, segment_index, starts
from edgewise.attention.scores import Dot
from edgewise.engines.call import AttentionCall, Problem, for_each_query
from edgewise.engines.costs import Work
from edgewise.engines.native.operator import flat, refusals, unflat
from edgewise.engines.tiles import varlen
from edgewise.engines.tiles.layout import TileRuns
from edgewise.engines.tiles.varlen import Sequences
from edgewise.engines.triton_rows import MISSING

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

DEVICES = {"cuda", "cpu"} if os.environ.get("EDGEWISE_FLEX") == "1" else {"cuda"}
"""Types of devices on which the engine uses FlexAttention."""
BLOCK = 128
LEAST_WIDTH = 16
"""Minimum width of a head, because a GPU multiplies matrices of this size."""
MOST_VARIANTS = 256
"""Maximum number of kernels that are compiled for different dtypes, heads and widths."""


def refuses(problem: Problem, largest: int) -> list[str]:
    """Return the reasons why FlexAttention cannot compute a call; an empty list if it can."""
    kind = problem.device.type
    reasons = refusals(problem, largest, device=kind, missing=MISSING if kind == "cuda" else "")
    if problem.dropout:
        reasons.append("FlexAttention does not support dropout")
    if problem.bias:
        reasons.append("the gradient of a bias in FlexAttention is not deterministic")
    least = min(problem.width, problem.value_width)
    if kind == "cuda" and 0 < least < LEAST_WIDTH:
        reasons.append(f"on a GPU, heads must be at least {LEAST_WIDTH} wide, not {least}")
    if kind == "cuda" and problem.dtype == torch.float64:
        reasons.append("on a GPU, it does not support float64")
    if not problem.num_edges * problem.batch * problem.heads:
        reasons.append("FlexAttention needs at least one edge")
    return reasons


def work(problem: Problem) -> Work:
    """Return the number of times each operation runs; all pairs of a block are computed."""
    heads, elements = problem.batch * problem.heads, problem.width + problem.value_width
    nodes = heads * (problem.num_targets + problem.num_sources)
    by_length = problem.packed and not problem.lse and varlen.serves(problem)
    pairs = heads * (problem.num_edges if by_length else problem.tiled or 0)
    return "varlen" if by_length else "flex", {
        "call": 1,
        "layout": problem.num_targets == 1,
        "element": nodes * elements,
        "pair": pairs,
        "product": pairs * elements,
    }


@dataclass(frozen=True, eq=False)
class FlexLayout:
    """Graph as FlexAttention reads it, with nodes reordered so that sources are consecutive."""

    row: Tensor | None
    place: Tensor | None
    column: Tensor | None
    mask: BlockMask
    spanned: int
    sequences: Sequences | None
    brought: int = 0

    def permuted(self, target_perm: Tensor, source_perm: Tensor) -> FlexLayout:
        """Return the layout for the graph in which targets and sources have these new numbers."""
        row = target_perm if self.row is None else target_perm[self.row]
        column = source_perm if self.column is None else source_perm[self.column]
        return replace(self, row=row, place=row.argsort(), column=column, sequences=None)

    @classmethod
    def of(cls, runs: TileRuns, rows: int, columns: int, sequences: Sequences | None) -> FlexLayout:
        from torch.nn.attention.flex_attention import BlockMask

        runs, count = _by_row(runs, rows)
        block, source_block, full = _blocks(runs, count, columns)
        down, across = -(-rows // BLOCK), -(-columns // BLOCK)
        by_target = _listed(block, source_block, full, (down, across))
        by_source = _listed(source_block, block, full, (across, down))
        mask = BlockMask(
            (rows, columns),
            *by_target,
            *by_source,
            BLOCK_SIZE=(BLOCK, BLOCK),
            mask_mod=_reads(runs, count),
        )
        row, column = (None if x is None else x.long() for x in (runs.row, runs.column))
        position = None if row is None else row.argsort()
        return cls(row, position, column, mask, BLOCK * BLOCK * block.numel(), sequences)


def _by_row(runs: TileRuns, rows: int) -> tuple[TileRuns, Tensor]:
    """Return the non-empty runs sorted by target and start, and the number of runs per target."""
    device = runs.start.device
    if runs.pointer is None:
        row = torch.arange(rows, device=device)
    else:
        row = segment_index(runs.pointer.diff(), runs.start.numel())
    nonempty = runs.start < runs.stop
    row, start, stop = row[nonempty], runs.start[nonempty], runs.stop[nonempty]
    order = (row * (stop.max() + 1 if stop.numel() else 1) + start).argsort()
    count = torch.zeros(rows, dtype=torch.long, device=device)
    count.index_add_(0, row, torch.ones_like(row))
    return runs._replace(start=start[order], stop=stop[order]), count


def _blocks(runs: TileRuns, count: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return row and column of each 128 × 128 block with edges, and whether it is full.

    Blocks are numbered row by row. Those that a run touches are an interval of these numbers, and
    overlapping intervals are joined. ``count`` is the number of runs of each target.
    """
    row = segment_index(count, runs.start.numel())
    across = -(-columns // BLOCK)
    ahead = row // BLOCK * across
    first, last = ahead + runs.start // BLOCK, ahead + (runs.stop - 1) // BLOCK
    begin, order = first.sort()
    reach = last[order].cummax(0).values
    new = torch.ones_like(reach, dtype=torch.bool)
    new[1:] = begin[1:] > reach[:-1]
    begin, end = begin[new], torch.cat([reach[:-1][new[1:]], reach[-1:]]) + 1
    stretch, position = runs_and_positions(end - begin)
    block = begin[stretch] + position
    # Count the edges of each block. A run from s to e has min(e, end) - max(s, begin) edges in the
    # block from begin to end. The sum over runs is: 128 for each run that starts before the end of
    # the block and ends after it, plus e - begin for each run that ends in the block, minus
    # s - begin for each run that starts in it.
    of = torch.searchsorted(begin, first, right=True) - 1
    begins = starts(end - begin)[of] + first - begin[of]
    ends = begins + last - first + (runs.stop % BLOCK == 0)
    through = block.new_zeros(block.numel() + 1)
    ones = torch.ones_like(begins)
    through.index_add_(0, begins, ones).index_add_(0, ends, -ones)
    covered = BLOCK * through.cumsum(0)
    covered.index_add_(0, ends, runs.stop % BLOCK).index_add_(0, begins, -(runs.start % BLOCK))
    return block // across, block % across, covered[:-1] == BLOCK * BLOCK


def _listed(
    row: Tensor, column: Tensor, full: Tensor, grid: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Convert blocks ``(row, column)`` of a grid to the lists that FlexAttention reads.

    These are the numbers and columns of partly covered blocks in each row, and both for full
    blocks. All lists have the same width, because the kernels of PyTorch 2.11 read one with the
    strides of the other.
    """
    size, most = grid
    group = full * size + row
    order = (group * most + column).argsort()
    group = group[order]
    count = torch.zeros(2 * size, dtype=torch.long, device=row.device)
    count.index_add_(0, group, torch.ones_like(group))
    rank = torch.arange(group.numel(), device=row.device) - starts(count)[group]
    widest = max(int(count.max()), 1)
    listed = torch.zeros(2 * size, widest, dtype=torch.int32, device=row.device)
    listed[group, rank] = column[order].int()
    counts, lists = count.int().view(2, 1, 1, size), listed.view(2, 1, 1, size, widest)
    return counts[0], lists[0], counts[1], lists[1]


def _reads(runs: TileRuns, count: Tensor) -> Callable[..., Tensor]:
    """Return FlexAttention's mask function, for ``count`` runs of each target."""
    # The pointer of the last row may be past the end if the row has no runs, so add one entry.
    nothing = runs.start.new_zeros(1)
    start, stop = (torch.cat([x, nothing]).int() for x in (runs.start, runs.stop))
    most = int(count.max())
    if most == 1 and bool((count == 1).all()):

        def in_run(_batch: Tensor, _head: Tensor, row: Tensor, column: Tensor) -> Tensor:
            return (start[row] <= column) & (column < stop[row])

        return in_run
    pointer = boundaries(count).int()
    steps = (most - 1).bit_length()

    def in_runs(_batch: Tensor, _head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        first, end = pointer[row], pointer[row + 1]
        # Bisection: [low, high) always contains the last run that starts at or before the column.
        low, high = first, end
        for _ in range(steps):
            middle = (low + high) >> 1
            starts_before = start[middle] <= column
            low, high = (
                torch.where(starts_before, middle, low),
                torch.where(starts_before, high, middle),
            )
        return (first < end) & (start[low] <= column) & (column < stop[low])

    return in_runs


def flex_attend(
    call: AttentionCall, layout: FlexLayout, *, with_lse: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Return the output ``[..., N_dst, H, Dv]``, and the log-sum-exp if ``with_lse``."""
    assert isinstance(call.score, Dot)
    batch, scale = call.batch, call.score.scale_for(call.query.shape[-1])
    query, key, value = (flat(x, batch) for x in (call.query, call.key, call.value))
    if layout.sequences is not None and not with_lse and varlen.takes(query, value):
        key, value = for_each_query(query, key), for_each_query(query, value)
        return unflat(varlen.attend(query, key, value, layout.sequences, scale), batch), None
    nodes = _at(query, layout.row), _at(key, layout.column), _at(value, layout.column)
    heads_first = [_heads_first(x.resolve_neg()) for x in nodes]
    out, lse = _flex()(heads_first, layout.mask, scale, with_lse=with_lse)
    # The backward kernels do not support gradients whose negative bit is set (Tensor.is_neg).
    for x in (out, lse):
        if x is not None and x.requires_grad and not torch.compiler.is_compiling():
            x.register_hook(_resolve_neg)
    out = _at(_nodes_first(out, query), layout.place)
    if lse is None:
        return unflat(out, batch), None
    lse = _at(_nodes_first(lse[..., None], query), layout.place)[..., 0]
    return unflat(out, batch), unflat(lse, batch)


def _resolve_neg(grad: Tensor | None) -> Tensor | None:
    """Return ``grad.resolve_neg()``, or ``None`` for the gradient of an unused output."""
    return None if grad is None else grad.resolve_neg()


def _at(x: Tensor, where: Tensor | None) -> Tensor:
    return x if where is None else x.index_select(-3, where)


def _heads_first(x: Tensor) -> Tensor:
    """Reshape ``[B, N, H, D]`` or ``[N, H, D]`` to ``[B, H, N, D]``."""
    return (x if x.dim() == 4 else x[None]).transpose(1, 2)


def _nodes_first(x: Tensor, like: Tensor) -> Tensor:
    x = x.transpose(1, 2)
    return x if like.dim() == 4 else x[0]


def _attention(
    nodes: list[Tensor], mask: BlockMask, scale: float, *, with_lse: bool
) -> tuple[Tensor, Tensor | None]:
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    aux = AuxRequest(lse=with_lse)
    out, others = flex_attention(
        nodes[0],
        nodes[1],
        nodes[2],
        block_mask=mask,
        scale=scale,
        # With grouped-query attention, several query heads share a key head.
        enable_gqa=nodes[0].shape[1] != nodes[1].shape[1],
        return_aux=aux,
    )
    return out, others.lse


def _flex() -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Return the attention function, on a GPU compiled unless the caller's code is."""
    return _attention if torch.compiler.is_compiling() or "cpu" in DEVICES else _compiled()


@cache
def _compiled() -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Return the compiled function; without ``fullgraph``, it might write a matrix of all pairs."""
    compiled = torch.compile(_attention, fullgraph=True)
    limits = torch._dynamo.config.patch(recompile_limit=MOST_VARIANTS)
    return cast("Callable[..., tuple[Tensor, Tensor | None]]", limits(compiled))
