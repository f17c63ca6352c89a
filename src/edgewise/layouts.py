"""From a graph to the form an engine asks for; made once a graph and kept on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.engines import triton_rows
from edgewise.engines.dense import DenseLayout
from edgewise.engines.native import library
from edgewise.engines.reference import EdgeLayout
from edgewise.engines.rows.layout import RowsLayout
from edgewise.engines.tiles import flex
from edgewise.engines.tiles.flex import FlexLayout
from edgewise.engines.tiles.layout import TileRuns, TilesLayout
from edgewise.engines.tiles.varlen import sequences_of
from edgewise.engines.triton_rows.layout import TritonLayout
from edgewise.graphs import Edges, Graph, Intervals, Permuted, Runs
from edgewise.graphs.compose import disjoint_union
from edgewise.graphs.runs import MOST_STEPS, lists_of
from edgewise.ragged import boundaries, runs_and_positions, starts

L = TypeVar("L")


def layout_of(graph: Graph, kind: type[L]) -> L:
    """The layout of this kind."""
    layout: L = graph.derived(MAKERS[kind])
    return layout


def graph_facts(graph: Graph) -> GraphFacts:
    """What the planner wants to know of a graph."""
    num_edges, grid, full, tiled, packed = graph.derived(_facts)
    return GraphFacts(
        num_targets=graph.num_targets,
        num_sources=graph.num_sources,
        num_edges=num_edges,
        grid=grid,
        full=full,
        tiled=tiled,
        packed=packed,
        duplicates=lambda: graph.has_duplicates,
    )


def execution_parts(graph: Graph) -> Sequence[Graph]:
    """What engines may compute apart, to be merged: runs of sources together, and listed edges.

    A graph that is all of one kind has a share for each of its parts.
    """
    return graph.derived(_execution_parts)


def _execution_parts(graph: Graph) -> Sequence[Graph]:
    runs = [part for part in graph.parts if isinstance(part, Intervals | Runs)]
    if not 0 < len(runs) < len(graph.parts):
        return graph.parts
    others = graph.parts[len(runs) :]  # as a union has its runs first
    return disjoint_union(runs, graph.num_targets, graph.num_sources), *others


class GraphFacts(TypedDict):
    """The fields of a ``Problem`` that the graph alone decides."""

    num_targets: int
    num_sources: int
    num_edges: int
    grid: int
    full: bool
    tiled: int | None
    packed: bool
    duplicates: Callable[[], bool]


def _edge_layout(graph: Graph) -> EdgeLayout:
    source, target = graph.edge_index
    return EdgeLayout(source, target, graph.num_targets, graph.num_sources)


def _rows_layout(graph: Graph) -> RowsLayout:
    on_cpu = graph.device.type == "cpu" and not triton_rows.INTERPRETED
    kind = RowsLayout if on_cpu or not triton_rows.serves(graph.device) else TritonLayout
    source, target = graph.edge_index
    return kind(source, target, graph.num_targets, graph.num_sources)


def _facts(graph: Graph) -> tuple[int, int, bool, int | None, bool]:
    """How many edges; places of the dense form, and whether they need no mask; :func:`_tiled`."""
    blocks, rows, columns = _shape(graph)
    num_edges, grid = graph.num_edges, blocks * rows * columns
    full = isinstance(graph, Intervals) and (grid == num_edges or graph.is_causal)
    return num_edges, grid, full, *_tiled(graph)


def _shape(graph: Graph) -> tuple[int, int, int]:
    """Blocks, rows and columns of the smallest dense form."""
    if graph.segments is None or not graph.segments[0].numel():
        return 1, graph.num_targets, graph.num_sources
    target_sizes, source_sizes = graph.segments
    blocks, rows, columns = target_sizes.numel(), int(target_sizes.max()), int(source_sizes.max())
    if blocks * rows * columns >= graph.num_targets * graph.num_sources:
        return 1, graph.num_targets, graph.num_sources
    return blocks, rows, columns


def _dense_layout(graph: Graph) -> DenseLayout:
    blocks, rows, columns = _shape(graph)
    facts = graph_facts(graph)
    places, full = facts["grid"], facts["full"]

    def edges() -> EdgeLayout:
        return layout_of(graph, EdgeLayout)

    if full and places == graph.num_edges:
        return DenseLayout(blocks, rows, columns, None, None, None, None, False, None, edges)
    target_sizes, source_sizes = graph.segments if graph.segments and blocks > 1 else (None, None)
    row_node, node_row = _places(target_sizes, rows)
    column_node, node_column = _places(source_sizes, columns)
    row = graph.target if node_row is None else node_row[graph.target]
    column = graph.source if node_column is None else node_column[graph.source]
    slot = row * columns + column % max(columns, 1)
    if full:
        return DenseLayout(blocks, rows, columns, None, None, None, None, True, slot, edges)
    mask = torch.zeros(places, dtype=torch.bool, device=graph.device).index_fill_(0, slot, True)
    mask = mask.view(blocks, rows, columns)
    places_of = (row_node, column_node, node_row)
    return DenseLayout(blocks, rows, columns, *places_of, mask, False, slot, edges)


def _places(sizes: Tensor | None, length: int) -> tuple[Tensor | None, Tensor | None]:
    """For a ragged batch: the node in each place ``[blocks, length]``, and each node's place."""
    if sizes is None or bool((sizes == length).all()):
        return None, None
    blocks = sizes.numel()
    member, position = runs_and_positions(sizes)
    place = member * length + position
    node = torch.arange(place.numel(), device=sizes.device)
    nodes = node.new_zeros(blocks * length).index_copy_(0, place, node)
    return nodes.view(blocks, length), place


GROUP = 8
"""Targets whose scores are computed together, as costs have it: no kernel takes more."""

BROUGHT = 16
"""Pairs that a source costs on its way to a block that reads it, beyond the first."""


def _tiled(graph: Graph) -> tuple[int | None, bool]:
    """The pairs that groups of targets span, where each target reads runs of sources.

    And whether these are packed sequences, of which a GPU computes no other pairs.
    """
    if isinstance(graph, Edges):
        return None, False
    if isinstance(graph, Permuted):
        return graph.graph.derived(_tiled)[0], False
    one_run = isinstance(graph, Intervals) and graph.step == 1
    if one_run and graph.num_targets == 1:  # each step of decoding has a graph of its own
        return GROUP * graph.num_edges, False
    fused = graph.device.type in flex.DEVICES
    if fused or not one_run:
        kernels = graph.num_edges > 0 if fused else graph.device.type == "cpu"
        if not kernels or (library.MISSING and not fused) or _steps(graph) is None:
            return None, False
        layout: TilesLayout | FlexLayout = layout_of(graph, TilesLayout)
        if isinstance(layout, FlexLayout):
            return layout.spanned, layout.sequences is not None
        again = max(layout.brought - graph.num_sources, 0)  # sources that several blocks read
        return layout.spanned + BROUGHT * again, False
    assert isinstance(graph, Intervals)
    empty = graph.start >= graph.stop
    start = graph.start.masked_fill(empty, graph.num_sources)
    stop = graph.stop.masked_fill(empty, 0)
    missing = -graph.num_targets % GROUP
    start = F.pad(start, (0, missing), value=graph.num_sources).view(-1, GROUP).amin(1)
    stop = F.pad(stop, (0, missing)).view(-1, GROUP).amax(1)
    return GROUP * int((stop - start).clamp(min=0).sum()), False


def _steps(graph: Graph) -> int | None:
    """The common step of all runs of a graph that is made of runs; else ``None``."""
    steps = [part.step for part in graph.parts if isinstance(part, Intervals | Runs)]
    if len(steps) < len(graph.parts):
        return None
    common = math.lcm(*steps)
    return common if common <= MOST_STEPS * min(steps) else None


def _tiles_layout(graph: Graph) -> TilesLayout | FlexLayout:
    if isinstance(graph, Permuted):
        by_place: TilesLayout | FlexLayout = layout_of(graph.graph, TilesLayout)
        return by_place.permuted(graph.target_perm, graph.source_perm)
    targets, sources = graph.segments or (
        torch.tensor([graph.num_targets], device=graph.device),
        torch.tensor([graph.num_sources], device=graph.device),
    )
    in_order = isinstance(graph, Intervals) and graph.step == 1
    make = _in_order if in_order else _by_place
    runs = make(graph, targets, sources)
    if runs.start.device.type not in flex.DEVICES:
        return TilesLayout.of(runs)
    sequences = sequences_of(runs.start, runs.stop, targets, sources) if in_order else None
    return FlexLayout.of(runs, graph.num_targets, graph.num_sources, sequences)


def _in_order(graph: Graph, targets: Tensor, sources: Tensor) -> TileRuns:
    """One run a target, all of neighbours."""
    assert isinstance(graph, Intervals)
    block, blocks = _divided(targets, TilesLayout.BLOCK)
    tile, tiles = _divided(sources, TilesLayout.TILE)
    unit = _units(blocks, tiles, sources)
    ends = graph.start.long().contiguous(), graph.stop.long().contiguous()
    edge = boundaries(graph.in_degree())
    nothing, pairs = block.new_empty(0), int(edge[-1])
    return TileRuns(nothing, nothing, None, *ends, edge[:-1], None, block, tile, unit, pairs)


def _units(*sizes: Tensor) -> Tensor:
    """Where each segment begins, and the last one ends, as blocks, tiles and sources count."""
    return F.pad(torch.stack(sizes).cumsum(1), (1, 0)).T.int().contiguous()


def _divided(sizes: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Where pieces of at most so many begin and the last one ends, and how many each run has."""
    counts = (sizes + most - 1) // most
    member, rank = runs_and_positions(counts)
    first = starts(sizes)[member] + most * rank
    return F.pad(first, (0, 1), value=int(sizes.sum())).int(), counts


def _by_place(graph: Graph, targets: Tensor, sources: Tensor) -> TileRuns:
    """The runs of all parts together.

    Where some have a step, sources that leave the same remainder become neighbours, and so do the
    targets that read them: then every run is one of neighbours.
    """
    common = _steps(graph)
    assert common is not None
    lists, numbers, ahead = [], [], 0
    for part in graph.parts:
        found = lists_of(part)
        assert found is not None  # as the engine refuses others
        lists.append(found)
        numbers.append(ahead + starts(found.lengths()))
        ahead += part.num_edges
    remainder = torch.zeros(graph.num_targets, dtype=torch.long, device=graph.device)
    if common > 1:
        widest = max(lists, key=lambda x: x.step)
        remainder[widest.row] = widest.start % common
    row_at, block, blocks = _blocks(graph, targets, remainder)
    column = torch.arange(graph.num_sources, device=graph.device)
    column_at = _sorted_within(sources, column % common)
    tile, tiles = _divided(sources, TilesLayout.TILE)
    unit = _units(blocks, tiles, sources)
    row_place, column_place = _place_of(row_at), _place_of(column_at)
    runs = []
    for found, number in zip(lists, numbers, strict=True):
        finer = common // found.step
        shift = torch.arange(finer, device=graph.device)
        start = (found.start[:, None] + found.step * shift).flatten()
        row, stop = found.row.repeat_interleave(finer), found.stop.repeat_interleave(finer)
        edge = (number[:, None] + shift).flatten()
        keep = start < stop
        row, start, stop, edge = row[keep], start[keep], stop[keep], edge[keep]
        length = (stop - start + common - 1) // common
        start = column_place[start]
        ends = start, start + length
        runs.append(torch.stack([row_place[row], *ends, edge, torch.full_like(row, finer)]))
    row, *rest = torch.cat(runs, 1).unbind()
    counts = torch.zeros_like(remainder)
    pointer = boundaries(counts.index_add_(0, row, torch.ones_like(row)))
    if not bool((row[1:] >= row[:-1]).all()):  # as they are in a part without steps
        order = row.argsort(stable=True)
        rest = [x[order] for x in rest]
    start, stop, edge, step = (x.contiguous() for x in rest)
    numbered = pointer, start, stop, edge, step
    at = _unless_in_order(row_at), _unless_in_order(column_at)
    return TileRuns(*at, *numbered, block, tile, unit, graph.num_edges)


LONG = 4
"""Targets that read so many times the average have blocks of their own."""


def _blocks(graph: Graph, targets: Tensor, remainder: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The target at each place, where blocks begin and end, and how many each segment has.

    Targets are by segment and by remainder. The few that read far more than others, as hubs do,
    come last in a segment, so that a block with one of them does not read all sources for the
    others; these stay in the blocks in which they would be, beside those with whom they share most.
    """
    at = _sorted_within(targets, remainder)
    member, rank = runs_and_positions(targets)
    degree = graph.in_degree()
    long = (degree * graph.num_targets > LONG * graph.num_edges)[at]
    ahead = starts(torch.zeros_like(targets).index_add_(0, member, long.long()))
    long_rank = long.long().cumsum(0) - 1 - ahead[member]
    block = torch.where(long, long_rank // TilesLayout.BLOCK, rank // TilesLayout.BLOCK)
    most = int(block.max()) + 1 if block.numel() else 1
    key = (member * 2 + long) * most + block
    order = key.argsort(stable=True)
    key = key[order]
    new = torch.ones_like(key, dtype=torch.bool)
    new[1:] = key[1:] != key[:-1]
    first = new.nonzero()[:, 0]
    counts = torch.zeros_like(targets).index_add_(0, member[order][first], torch.ones_like(first))
    return at[order], F.pad(first, (0, 1), value=graph.num_targets).int(), counts


def _sorted_within(sizes: Tensor, key: Tensor) -> Tensor:
    """The nodes of each segment, sorted by a key."""
    member, _ = runs_and_positions(sizes)
    return (member * (int(key.max()) + 1 if key.numel() else 1) + key).argsort(stable=True)


def _place_of(node_at: Tensor) -> Tensor:
    """The place of each node."""
    place = torch.arange(node_at.numel(), device=node_at.device)
    return torch.empty_like(node_at).index_copy_(0, node_at, place)


def _unless_in_order(node_at: Tensor) -> Tensor:
    """The node at each place, or nothing where that is its number."""
    in_order = node_at.equal(torch.arange(node_at.numel(), device=node_at.device))
    return node_at.new_empty(0, dtype=torch.int32) if in_order else node_at.int()


MAKERS: dict[type[Any], Callable[[Graph], Any]] = {
    EdgeLayout: _edge_layout,
    DenseLayout: _dense_layout,
    RowsLayout: _rows_layout,
    TilesLayout: _tiles_layout,
}
