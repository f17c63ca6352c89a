"""Order of the nodes, and their division into blocks and tiles, for the engine "tiles".

A run is a range of evenly spaced sources of a target. Nodes are reordered, so that the sources of
every run are consecutive. The new index of a node is its *place*; results contain places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.ragged import boundaries, runs_and_positions, segment_index, starts
from edgewise.engines.tiles.layout import TileRuns, TilesLayout

GROUP = 8
"""Number of targets that the cost model assumes to be computed together.

This is the largest such number of all kernels.
"""

LOAD_COST = 16
"""Cost of loading a source once more for another block of targets, relative to computing a pair."""

LONG = 4
"""A target with more edges than this factor times the mean is in a block of such targets."""


class PartRuns(NamedTuple):
    """The R non-empty runs ``range(start, stop, step)`` of one part of a graph."""

    row: Tensor  # [R], target of each run.
    start: Tensor
    stop: Tensor
    edge: Tensor  # [R], index of the first edge of each run.
    step: int


class Pieces(NamedTuple):
    """Bounds ``[pieces + 1]`` of the pieces of all segments, and the number of pieces of each."""

    bounds: Tensor
    counts: Tensor


def spanned_pairs(start: Tensor, stop: Tensor, num_sources: int) -> int:
    """Return the number of pairs that the kernels compute if each target has one range of sources.

    Each group of 8 neighbouring targets computes all sources between their first and their last.
    """
    empty = start >= stop
    start, stop = start.masked_fill(empty, num_sources), stop.masked_fill(empty, 0)
    missing = -start.numel() % GROUP
    start = F.pad(start, (0, missing), value=num_sources).view(-1, GROUP).amin(1)
    stop = F.pad(stop, (0, missing)).view(-1, GROUP).amax(1)
    return GROUP * int((stop - start).clamp(min=0).sum())


def schedule_intervals(
    start: Tensor, stop: Tensor, degree: Tensor, targets: Tensor, sources: Tensor
) -> TileRuns:
    """Return the runs of a graph in which target i attends to ``range(start[i], stop[i])``.

    ``targets`` and ``sources`` are the numbers of nodes of each segment, such as a graph of a
    batch.
    """
    blocks = _cut(targets, TilesLayout.BLOCK)
    tiles = _cut(sources, TilesLayout.TILE)
    edge = boundaries(degree)
    return TileRuns(
        start=start.long().contiguous(),
        stop=stop.long().contiguous(),
        edge=edge[:-1],
        block=blocks.bounds,
        tile=tiles.bounds,
        unit=_units(blocks, tiles, sources),
        pairs=int(edge[-1]),
    )


def schedule_runs(
    members: Sequence[PartRuns],
    *,
    common_step: int,
    degree: Tensor,
    num_sources: int,
    num_edges: int,
    targets: Tensor,
    sources: Tensor,
) -> TileRuns:
    """Return the runs of a graph with any number of runs per target.

    If ``common_step``, a multiple of all steps, is not 1, sources with the same remainder modulo
    this step get consecutive places, and so do the targets that attend to them, so that all runs
    are consecutive. ``targets`` and ``sources`` are the numbers of nodes of each segment.
    """
    device = degree.device
    remainder = torch.zeros_like(degree)
    if common_step > 1:
        widest = max(members, key=lambda member: member.step)
        remainder[widest.row] = widest.start % common_step
    target_at, blocks = _cut_targets(degree, num_edges, targets, remainder)
    source = torch.arange(num_sources, device=device)
    source_at = _sort_within(sources, source % common_step)
    tiles = _cut(sources, TilesLayout.TILE)
    target_place, source_place = _invert(target_at), _invert(source_at)
    runs = []
    for member in members:
        # A run with a smaller step is split into one run for each remainder.
        splits = common_step // member.step
        shift = torch.arange(splits, device=device)
        start = (member.start[:, None] + member.step * shift).flatten()
        row, stop = member.row.repeat_interleave(splits), member.stop.repeat_interleave(splits)
        edge = (member.edge[:, None] + shift).flatten()
        keep = start < stop
        row, start, stop, edge = row[keep], start[keep], stop[keep], edge[keep]
        length = (stop - start + common_step - 1) // common_step
        start = source_place[start]
        step = torch.full_like(row, splits)
        runs.append(torch.stack([target_place[row], start, start + length, edge, step]))
    row, *rest = torch.cat(runs, 1).unbind()
    pointer = boundaries(torch.zeros_like(degree).index_add_(0, row, torch.ones_like(row)))
    # The rows are already sorted if there is one part with step 1.
    if not bool((row[1:] >= row[:-1]).all()):
        order = row.argsort(stable=True)
        rest = [x[order] for x in rest]
    start, stop, edge, step = (x.contiguous() for x in rest)
    return TileRuns(
        row=_unless_sorted(target_at),
        column=_unless_sorted(source_at),
        pointer=pointer,
        start=start,
        stop=stop,
        edge=edge,
        step=step,
        block=blocks.bounds,
        tile=tiles.bounds,
        unit=_units(blocks, tiles, sources),
        pairs=num_edges,
    )


def _units(blocks: Pieces, tiles: Pieces, sources: Tensor) -> Tensor:
    """Return the first block, tile and source of each segment, then the totals, ``[S + 1, 3]``."""
    sizes = torch.stack([blocks.counts, tiles.counts, sources])
    return F.pad(sizes.cumsum(1), (1, 0)).T.int().contiguous()


def _cut(sizes: Tensor, most: int) -> Pieces:
    """Cut segments of these sizes into pieces of at most ``most`` nodes."""
    counts = (sizes + most - 1) // most
    segment = segment_index(counts)
    piece = torch.arange(segment.numel(), device=sizes.device)
    first = most * piece + starts(sizes - most * counts)[segment]
    return Pieces(F.pad(first, (0, 1), value=int(sizes.sum())).int(), counts)


def _cut_targets(
    degree: Tensor, num_edges: int, targets: Tensor, remainder: Tensor
) -> tuple[Tensor, Pieces]:
    """Return the target at each place (new index), and the division of the places into blocks.

    Targets are sorted by segment, then by remainder. Targets with many edges, such as global
    tokens, come last in their segment and in separate blocks: each target of a block computes the
    sources of all targets of the block.
    """
    num_targets = len(degree)
    at = _sort_within(targets, remainder)
    segment, rank = runs_and_positions(targets)
    long = (degree * num_targets > LONG * num_edges)[at]
    ahead = starts(torch.zeros_like(targets).index_add_(0, segment, long.long()))
    long_rank = long.long().cumsum(0) - 1 - ahead[segment]
    block = torch.where(long, long_rank // TilesLayout.BLOCK, rank // TilesLayout.BLOCK)
    most = int(block.max()) + 1 if block.numel() else 1
    key = (segment * 2 + long) * most + block
    order = key.argsort(stable=True)
    key = key[order]
    new = torch.ones_like(key, dtype=torch.bool)
    new[1:] = key[1:] != key[:-1]
    first = new.nonzero()[:, 0]
    counts = torch.zeros_like(targets).index_add_(0, segment[order][first], torch.ones_like(first))
    return at[order], Pieces(F.pad(first, (0, 1), value=num_targets).int(), counts)


def _sort_within(sizes: Tensor, key: Tensor) -> Tensor:
    """Return the indices of the nodes sorted by segment, then by ``key [N]``."""
    segment, _ = runs_and_positions(sizes)
    return (segment * (int(key.max()) + 1 if key.numel() else 1) + key).argsort(stable=True)


def _invert(node_at: Tensor) -> Tensor:
    """Return the place (new index) of each node, given ``node_at``, the node at each place."""
    index = torch.arange(node_at.numel(), device=node_at.device)
    return torch.empty_like(node_at).index_copy_(0, node_at, index)


def _unless_sorted(node_at: Tensor) -> Tensor | None:
    """Return ``node_at``, the node at each place (new index), or ``None`` if no node was moved."""
    in_order = node_at.equal(torch.arange(node_at.numel(), device=node_at.device))
    return None if in_order else node_at.int()
