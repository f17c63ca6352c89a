"""Runs of sources on a GPU: FlexAttention with a block mask computed from the runs.

The mask is made without visiting pairs: each run determines which blocks of 128 × 128 pairs it
touches, and how much of each block it covers. Fully covered blocks are computed without a mask. In
other blocks, each pair finds its run by bisection among the runs of its target. Memory grows with
the number of runs, and with the maximum number of blocks that a block of targets attends to.

``torch.compile`` generates the kernels on the first call with new dtypes, heads or widths; the
kernels compiled for the second graph size support all further sizes. For tests without a GPU, set
``EDGEWISE_FLEX=1`` before Python starts: FlexAttention then runs on CPU tensors, forward only, with
plain operations on all pairs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from edgewise.engines.call import AttentionCall, Problem, for_each_query
from edgewise.engines.costs import Work
from edgewise.engines.native.operator import flat, refusals, unflat
from edgewise.engines.tiles import varlen
from edgewise.engines.tiles.layout import TileRuns
from edgewise.engines.tiles.varlen import Sequences
from edgewise.engines.triton_rows import MISSING
from edgewise.ragged import boundaries, runs_and_positions, segment_index, starts
from edgewise.scores import Dot

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

DEVICES = {"cuda", "cpu"} if os.environ.get("EDGEWISE_FLEX") == "1" else {"cuda"}
"""Types of devices whose tensors FlexAttention computes."""
BLOCK = 128
LEAST_WIDTH = 16
"""Minimum width of a head, the size of a GPU's matrix instructions."""
MOST_VARIANTS = 256
"""Maximum number of compiled variants: dtypes, heads, widths, with and without gradients."""


def refuses(problem: Problem, largest: int) -> list[str]:
    """Return the reasons why FlexAttention does not support a problem; empty if it does."""
    kind = problem.device.type
    reasons = refusals(problem, largest, device=kind, missing=MISSING if kind == "cuda" else "")
    if problem.dropout:
        reasons.append("FlexAttention does not support dropout")
    if problem.bias:
        reasons.append("the gradient of a bias in FlexAttention is not deterministic")
    least = min(problem.width, problem.value_width)
    if kind == "cuda" and 0 < least < LEAST_WIDTH:
        reasons.append(f"on a GPU heads must be at least {LEAST_WIDTH} wide, not {least}")
    if kind == "cuda" and problem.dtype == torch.float64:
        reasons.append("on a GPU, tiles does not support float64")
    if not problem.num_edges * problem.batch * problem.heads:
        reasons.append("FlexAttention needs at least one edge")
    return reasons


def work(problem: Problem) -> Work:
    """Return the operation counts. Whole blocks are computed, even if they have few edges."""
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
    """Block mask of a graph made of runs.

    Attributes:
        row: the target at each place, ``None`` if in order.
        place: the place of each target, the inverse of ``row``.
        column: the source at each place, ``None`` if in order.
        mask: the blocks with edges, for both passes, and the function that tests a pair.
        spanned: number of pairs in these blocks.
        sequences: the same graph as packed sequences, if it has that form.
        brought: 0, because ``spanned`` includes all costs; see :class:`TilesLayout`.

    """

    row: Tensor | None
    place: Tensor | None
    column: Tensor | None
    mask: BlockMask
    spanned: int
    sequences: Sequences | None
    brought: int = 0

    def permuted(self, target_perm: Tensor, source_perm: Tensor) -> FlexLayout:
        """Return the layout of the graph in which each node i is renumbered to ``perm[i]``."""
        row = target_perm if self.row is None else target_perm[self.row]
        column = source_perm if self.column is None else source_perm[self.column]
        return replace(self, row=row, place=row.argsort(), column=column, sequences=None)

    @classmethod
    def of(cls, runs: TileRuns, rows: int, columns: int, sequences: Sequences | None) -> FlexLayout:
        """Make the layout for ``rows`` targets and ``columns`` sources."""
        from torch.nn.attention.flex_attention import BlockMask

        runs, count = _by_row(runs, rows)
        block, source_block, whole = _blocks(runs, count, columns)
        down = (source_block * (block.max() + 1) + block).argsort()  # Sort by source.
        lists: list[tuple[Tensor, Tensor]] = []
        for order, of, other, size in (
            (slice(None), block, source_block, rows),
            (down, source_block, block, columns),
        ):
            for kept in (~whole[order], whole[order]):
                lists.append(_listed(of[order][kept], other[order][kept], -(-size // BLOCK)))
        some, all_, some_down, all_down = lists
        mask = BlockMask(
            (rows, columns),
            *some,
            *all_,
            *some_down,
            *all_down,
            BLOCK_SIZE=(BLOCK, BLOCK),
            mask_mod=_reads(runs, count),
        )
        row, column = (None if x is None else x.long() for x in (runs.row, runs.column))
        place = None if row is None else row.argsort()
        return cls(row, place, column, mask, BLOCK * BLOCK * block.numel(), sequences)


def _by_row(runs: TileRuns, rows: int) -> tuple[TileRuns, Tensor]:
    """Return the runs that are not empty, sorted by row and start, and their number by row."""
    device = runs.start.device
    if runs.pointer is None:
        row = torch.arange(rows, device=device)
    else:
        row = segment_index(runs.pointer.diff(), runs.start.numel())
    kept = runs.start < runs.stop
    row, start, stop = row[kept], runs.start[kept], runs.stop[kept]
    order = (row * (stop.max() + 1 if stop.numel() else 1) + start).argsort()
    count = torch.zeros(rows, dtype=torch.long, device=device)
    count.index_add_(0, row, torch.ones_like(row))
    return runs._replace(start=start[order], stop=stop[order]), count


def _blocks(runs: TileRuns, count: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Find the blocks that contain edges.

    Returns the index of each such block by target and by source, sorted in this order, and whether
    all of its pairs are edges.

    The blocks of all rows of blocks are numbered on one line, row by row. Each run covers an
    interval of this line; intervals that touch are joined to a stretch.
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
    # A run from s to e has min(e, end) - max(s, begin) pairs in a block. Summed over runs: 128 for
    # each run that starts in the block or before it and ends after it, plus the part of each run
    # that ends in it, minus the part of the block before each run that starts in it.
    of = torch.searchsorted(begin, first, right=True) - 1
    begins = starts(end - begin)[of] + first - begin[of]
    ends = begins + last - first + (runs.stop % BLOCK == 0)
    through = block.new_zeros(block.numel() + 1)
    one = torch.ones_like(begins)
    through.index_add_(0, begins, one).index_add_(0, ends, -one)
    covered = BLOCK * through.cumsum(0)
    covered.index_add_(0, ends, runs.stop % BLOCK).index_add_(0, begins, -(runs.start % BLOCK))
    return block // across, block % across, covered[:-1] == BLOCK * BLOCK


def _listed(of: Tensor, other: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Convert pairs sorted by ``of`` to FlexAttention's form: counts, and rows padded with 0."""
    count = torch.zeros(size, dtype=torch.long, device=of.device)
    count.index_add_(0, of, torch.ones_like(of))
    begin = starts(count)
    rank = torch.arange(of.numel(), device=of.device) - begin[of]
    widest = max(int(count.max()), 1)
    listed = torch.zeros(size, widest, dtype=torch.int32, device=of.device)
    listed[of, rank] = other.int()
    return count.int()[None, None], listed[None, None]


def _reads(runs: TileRuns, count: Tensor) -> Callable[..., Tensor]:
    """Return a mask function for FlexAttention: whether a pair of places is an edge."""
    # The pointer of a row without runs may be past the end, so one entry is added.
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
        # The interval contains the last run that starts at or before the column.
        low, high = first, end
        for _ in range(steps):
            middle = (low + high) >> 1
            before = start[middle] <= column
            low, high = torch.where(before, middle, low), torch.where(before, high, middle)
        return (first < end) & (start[low] <= column) & (column < stop[low])

    return in_runs


def flex_attend(
    call: AttentionCall, layout: FlexLayout, *, with_lse: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Return output ``[..., N_dst, H, Dv]``, and log-sum-exp ``[..., N_dst, H]`` or None."""
    assert isinstance(call.score, Dot)
    batch, scale = call.batch, call.score.scale_for(call.query.shape[-1])
    query, key, value = (flat(x, batch) for x in (call.query, call.key, call.value))
    if layout.sequences is not None and not with_lse and varlen.takes(query, value):
        key, value = for_each_query(query, key), for_each_query(query, value)
        return unflat(varlen.attend(query, key, value, layout.sequences, scale), batch), None
    nodes = _at(query, layout.row), _at(key, layout.column), _at(value, layout.column)
    given = [_heads_first(x.resolve_neg()) for x in nodes]
    out, lse = _flex()(given, layout.mask, scale, with_lse=with_lse)
    # The backward kernels do not support gradients with a negative bit.
    for x in (out, lse):
        if x is not None and x.requires_grad and not torch.compiler.is_compiling():
            x.register_hook(_resolve_neg)
    out = _at(_nodes_first(out, query), layout.place)
    if lse is None:
        return unflat(out, batch), None
    lse = _at(_nodes_first(lse[..., None], query), layout.place)[..., 0]
    return unflat(out, batch), unflat(lse, batch)


def _resolve_neg(grad: Tensor | None) -> Tensor | None:
    """Resolve the negative bit; the gradient of an unused output is ``None``."""
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
        # In grouped-query attention, several query heads share a key head.
        enable_gqa=nodes[0].shape[1] != nodes[1].shape[1],
        return_aux=aux,
    )
    return out, others.lse


def _flex() -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Return the attention function, compiled unless the caller compiles it or the CPU runs it."""
    return _attention if torch.compiler.is_compiling() or "cpu" in DEVICES else _compiled()


@cache
def _compiled() -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Compile with ``fullgraph``: without fusion, FlexAttention writes a matrix of all pairs."""
    compiled = torch.compile(_attention, fullgraph=True)
    limits = torch._dynamo.config.patch(recompile_limit=MOST_VARIANTS)
    return cast("Callable[..., tuple[Tensor, Tensor | None]]", limits(compiled))
