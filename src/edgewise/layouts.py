"""From a graph to the form an engine asks for; made once a graph and kept on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.engines import triton_rows
from edgewise.engines.dense import DenseLayout
from edgewise.engines.reference import EdgeLayout
from edgewise.engines.rows.layout import RowsLayout
from edgewise.engines.tiles.layout import TilesLayout
from edgewise.engines.triton_rows.layout import TritonLayout
from edgewise.graphs import Graph, Intervals
from edgewise.ragged import boundaries, runs_and_positions, starts

L = TypeVar("L")


def layout_of(graph: Graph, kind: type[L]) -> L:
    """The layout of this kind."""
    layout: L = graph.derived(MAKERS[kind])
    return layout


def graph_facts(graph: Graph) -> GraphFacts:
    """What the planner wants to know of a graph."""
    grid, full = graph.derived(_grid)
    return GraphFacts(
        num_targets=graph.num_targets,
        num_sources=graph.num_sources,
        num_edges=graph.num_edges,
        grid=grid,
        full=full,
        tiled=graph.derived(_tiled),
        duplicates=lambda: graph.has_duplicates,
    )


class GraphFacts(TypedDict):
    """The fields of a ``Problem`` that the graph alone decides."""

    num_targets: int
    num_sources: int
    num_edges: int
    grid: int
    full: bool
    tiled: int | None
    duplicates: Callable[[], bool]


def _edge_layout(graph: Graph) -> EdgeLayout:
    return EdgeLayout(graph.source, graph.target, graph.num_targets, graph.num_sources)


def _rows_layout(graph: Graph) -> RowsLayout:
    on_cpu = graph.device.type == "cpu" and not triton_rows.INTERPRETED
    kind = RowsLayout if on_cpu or not triton_rows.serves(graph.device) else TritonLayout
    return kind(graph.source, graph.target, graph.num_targets, graph.num_sources)


def _grid(graph: Graph) -> tuple[int, bool]:
    """The places of the dense form, and whether they need no mask."""
    blocks, rows, columns = _shape(graph)
    grid = blocks * rows * columns
    return grid, isinstance(graph, Intervals) and (grid == graph.num_edges or graph.is_causal)


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
"""Targets whose scores are computed together."""


def _tiled(graph: Graph) -> int | None:
    """The pairs that groups of targets span, where each target reads one run of sources."""
    if not isinstance(graph, Intervals) or graph.step != 1:
        return None
    empty = graph.start >= graph.stop
    start = graph.start.masked_fill(empty, graph.num_sources)
    stop = graph.stop.masked_fill(empty, 0)
    missing = -graph.num_targets % GROUP
    start = F.pad(start, (0, missing), value=graph.num_sources).view(-1, GROUP).amin(1)
    stop = F.pad(stop, (0, missing)).view(-1, GROUP).amax(1)
    return GROUP * int((stop - start).clamp(min=0).sum())


def _tiles_layout(graph: Graph) -> TilesLayout:
    assert isinstance(graph, Intervals)  # as the engine refuses others
    targets, sources = graph.segments or (
        torch.tensor([graph.num_targets], device=graph.device),
        torch.tensor([graph.num_sources], device=graph.device),
    )
    blocks = (targets + TilesLayout.BLOCK - 1) // TilesLayout.BLOCK
    member, rank = runs_and_positions(blocks)
    first_row = starts(targets)[member] + TilesLayout.BLOCK * rank
    block = F.pad(first_row, (0, 1), value=graph.num_targets)
    unit = torch.stack([boundaries(blocks), boundaries(sources)], 1)
    first_edge = starts(graph.in_degree())
    return TilesLayout(  # which has no tensor of the graph's own
        graph.start.to(torch.int32, copy=True),
        graph.stop.to(torch.int32, copy=True),
        first_edge,
        block.int(),
        unit.int(),
        pairs=graph.num_edges,
    )


MAKERS: dict[type[Any], Callable[[Graph], Any]] = {
    EdgeLayout: _edge_layout,
    DenseLayout: _dense_layout,
    RowsLayout: _rows_layout,
    TilesLayout: _tiles_layout,
}
