"""Schedule of the tiles engine: order of the nodes, blocks of targets and tiles of sources.

Nodes are sorted so that every run has consecutive sources. The position of a node in this order is
its place; all results count by place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.engines.tiles.layout import TileRuns, TilesLayout
from edgewise.ragged import boundaries, runs_and_positions, segment_index, starts

GROUP = 8
"""Number of targets whose scores are computed together, for the cost model: the maximum of all
kernels."""

LOAD_COST = 16
"""Cost of loading a source for one more block of targets, in units of one pair."""

LONG = 4
"""Targets with more edges than this factor times the mean get separate blocks."""


class PartRuns(NamedTuple):
    """Runs of a part of a graph, none of them empty.

    Attributes:
        row: ``[R]``, the target of each run.
        start, stop: ``[R]``, each run has the sources ``start, start + step, ...`` below ``stop``.
        edge: ``[R]``, index of the first edge of each run.
        step: distance between neighbouring sources of a run.
    """

    row: Tensor
    start: Tensor
    stop: Tensor
    edge: Tensor
    step: int


class Pieces(NamedTuple):
    """Segments of nodes cut into pieces of bounded length.

    Attributes:
        bounds: ``[pieces + 1]``, int32, first place of each piece and the end of the last one.
        counts: ``[segments]``, number of pieces of each segment.
    """

    bounds: Tensor
    counts: Tensor


def spanned_pairs(start: Tensor, stop: Tensor, num_sources: int) -> int:
    """Return the number of pairs that groups of targets compute for one run per target."""
    empty = start >= stop
    start, stop = start.masked_fill(empty, num_sources), stop.masked_fill(empty, 0)
    missing = -start.numel() % GROUP
    start = F.pad(start, (0, missing), value=num_sources).view(-1, GROUP).amin(1)
    stop = F.pad(stop, (0, missing)).view(-1, GROUP).amax(1)
    return GROUP * int((stop - start).clamp(min=0).sum())


def schedule_intervals(
    start: Tensor, stop: Tensor, degree: Tensor, targets: Tensor, sources: Tensor
) -> TileRuns:
    """Schedule one run of consecutive sources per target; all nodes keep their order.

    Args:
        start: ``[N_dst]``, first source of each target.
        stop: ``[N_dst]``, end of the sources of each target.
        degree: ``[N_dst]``, number of edges of each target.
        targets: ``[segments]``, sizes of ranges of targets.
        sources: ``[segments]``, sizes of the ranges of sources that only these attend to.
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
    parts: Sequence[PartRuns],
    *,
    common_step: int,
    degree: Tensor,
    num_sources: int,
    num_edges: int,
    targets: Tensor,
    sources: Tensor,
) -> TileRuns:
    """Schedule any number of runs per target, with steps that divide ``common_step``.

    If the common step is not 1, sources with the same remainder modulo this step get consecutive
    places, and so do the targets that attend to them. Every run then has consecutive places.

    Args:
        parts: runs of the parts of the graph.
        common_step: multiple of the steps of all parts.
        degree: ``[N_dst]``, number of edges of each target.
        num_sources: number of sources.
        num_edges: number of edges.
        targets: ``[segments]``, sizes of ranges of targets.
        sources: ``[segments]``, sizes of the ranges of sources that only these attend to.
    """
    device = degree.device
    remainder = torch.zeros_like(degree)
    if common_step > 1:
        widest = max(parts, key=lambda part: part.step)
        remainder[widest.row] = widest.start % common_step
    target_at, blocks = _cut_targets(degree, num_edges, targets, remainder)
    source = torch.arange(num_sources, device=device)
    source_at = _sort_within(sources, source % common_step)
    tiles = _cut(sources, TilesLayout.TILE)
    target_place, source_place = _invert(target_at), _invert(source_at)
    runs = []
    for part in parts:
        # A run with a smaller step is split into one run for each remainder.
        splits = common_step // part.step
        shift = torch.arange(splits, device=device)
        start = (part.start[:, None] + part.step * shift).flatten()
        row, stop = part.row.repeat_interleave(splits), part.stop.repeat_interleave(splits)
        edge = (part.edge[:, None] + shift).flatten()
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
    """Return first block, tile and source of each segment, and the ends of the last segment."""
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
    """Return the target at each place, and the blocks.

    Targets are sorted by segment and by remainder. Targets with many more edges than others, such
    as hubs, come last in their segment and get separate blocks, because a block computes the
    sources of all its targets for each of them. Among the hubs, the sorted order is kept.
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
    """Return the nodes of each segment, sorted by a key."""
    segment, _ = runs_and_positions(sizes)
    return (segment * (int(key.max()) + 1 if key.numel() else 1) + key).argsort(stable=True)


def _invert(node_at: Tensor) -> Tensor:
    """Return the place of each node, given the node at each place."""
    place = torch.arange(node_at.numel(), device=node_at.device)
    return torch.empty_like(node_at).index_copy_(0, node_at, place)


def _unless_sorted(node_at: Tensor) -> Tensor | None:
    """Return the node at each place, ``None`` if all nodes kept their order."""
    in_order = node_at.equal(torch.arange(node_at.numel(), device=node_at.device))
    return None if in_order else node_at.int()
