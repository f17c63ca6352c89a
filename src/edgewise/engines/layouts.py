"""Layouts: the form in which each engine stores a graph, built once and cached on the graph.

An engine is one implementation of :func:`edgewise.attend`, such as ``dense``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypedDict, TypeVar

import torch
from torch import Tensor

from edgewise._utils.ragged import runs_and_positions, starts
from edgewise.engines import triton_rows
from edgewise.engines.dense import DenseLayout, Places
from edgewise.engines.native import library
from edgewise.engines.reference import EdgeLayout
from edgewise.engines.rows.layout import RowsLayout
from edgewise.engines.tiles import flex
from edgewise.engines.tiles.flex import FlexLayout
from edgewise.engines.tiles.layout import TileRuns, TilesLayout
from edgewise.engines.tiles.schedule import (
    GROUP,
    LOAD_COST,
    PartRuns,
    schedule_intervals,
    schedule_runs,
    spanned_pairs,
)
from edgewise.engines.tiles.varlen import sequences_of
from edgewise.engines.triton_rows.layout import TritonLayout
from edgewise.graphs import Edges, Graph, Intervals, Permuted, Runs
from edgewise.graphs.graph import disjoint_union, runs_of
from edgewise.graphs.run_lists import MOST_STEPS

L = TypeVar("L")


def layout_of(graph: Graph, kind: type[L]) -> L:
    """Return a graph in the form ``kind``, which an engine needs; the first call builds it."""
    layout: L = graph.derived(MAKERS[kind])
    return layout


def graph_facts(graph: Graph) -> GraphFacts:
    """Return the arguments of :class:`~edgewise.engines.call.Problem` that describe the graph."""
    return {**graph.derived(_sizes), "duplicates": lambda: graph.has_duplicates}


def execution_parts(graph: Graph) -> Sequence[Graph]:
    """Return the parts of a graph that may be computed on different engines and then merged.

    The parts are the members of a union of patterns. If the sources of some members are stored as
    ranges and those of other members as lists of edges, all members with ranges form one part.
    """
    return graph.derived(_execution_parts)


def _execution_parts(graph: Graph) -> Sequence[Graph]:
    runs = [part for part in graph.parts if isinstance(part, Intervals | Runs)]
    if not 0 < len(runs) < len(graph.parts):
        return graph.parts
    # In a union, the members made of runs come first.
    others = graph.parts[len(runs) :]
    return disjoint_union(runs, graph.num_targets, graph.num_sources), *others


class GraphSizes(TypedDict):
    """Type of the numbers by which a graph affects the choice of an engine; cached on the graph.

    :class:`~edgewise.engines.call.Problem` describes them.
    """

    num_targets: int
    num_sources: int
    num_edges: int
    grid: int
    full: bool
    tiled: int | None
    packed: bool


class GraphFacts(GraphSizes):
    """Type of the arguments of :class:`~edgewise.engines.call.Problem` that describe the graph."""

    duplicates: Callable[[], bool]


def _edge_layout(graph: Graph) -> EdgeLayout:
    source, target = graph.edge_index
    return EdgeLayout(source, target, graph.num_targets, graph.num_sources)


def _rows_layout(graph: Graph) -> RowsLayout:
    on_cpu = graph.device.type == "cpu" and not triton_rows.INTERPRETED
    kind = RowsLayout if on_cpu or not triton_rows.serves(graph.device) else TritonLayout
    source, target = graph.edge_index
    return kind(source, target, graph.num_targets, graph.num_sources)


def _sizes(graph: Graph) -> GraphSizes:
    blocks, rows, columns = _dense_shape(graph)
    num_edges, grid = graph.num_edges, blocks * rows * columns
    tiling = _tiling(graph)
    return GraphSizes(
        num_targets=graph.num_targets,
        num_sources=graph.num_sources,
        num_edges=num_edges,
        grid=grid,
        full=isinstance(graph, Intervals) and (grid == num_edges or graph.is_causal),
        tiled=None if tiling is None else tiling.pairs,
        packed=tiling is not None and tiling.packed,
    )


def _dense_shape(graph: Graph) -> tuple[int, int, int]:
    """Return the numbers of blocks, rows and columns of the dense layout of a graph.

    The layout has one block for each segment of a packed batch if that is smaller than one block
    for the whole graph.
    """
    whole = 1, graph.num_targets, graph.num_sources
    if graph.segments is None or not graph.segments[0].numel():
        return whole
    targets, sources = graph.segments
    shape = targets.numel(), int(targets.max()), int(sources.max())
    return shape if math.prod(shape) < math.prod(whole) else whole


def _dense_layout(graph: Graph) -> DenseLayout:
    shape = _dense_shape(graph)
    blocks, rows, columns = shape
    sizes = graph.derived(_sizes)
    places, full = sizes["grid"], sizes["full"]

    def edges() -> EdgeLayout:
        return layout_of(graph, EdgeLayout)

    if full and places == graph.num_edges:
        return DenseLayout(*shape, list_edges=edges)
    targets, sources = graph.segments if graph.segments and blocks > 1 else (None, None)
    row_places, column_places = _padded_places(targets, rows), _padded_places(sources, columns)
    row = graph.target if row_places is None else row_places.of_node[graph.target]
    column = graph.source if column_places is None else column_places.of_node[graph.source]
    slot = row * columns + column % max(columns, 1)
    if full:
        return DenseLayout(*shape, list_edges=edges, causal=True, slot=slot)
    mask = torch.zeros(places, dtype=torch.bool, device=graph.device).index_fill_(0, slot, True)
    return DenseLayout(
        *shape,
        list_edges=edges,
        row_places=row_places,
        column_places=column_places,
        mask=mask.view(shape),
        slot=slot,
    )


def _padded_places(sizes: Tensor | None, length: int) -> Places | None:
    """Return the index of each node after padding segments to ``length``; None if none is padded.

    Args:
        sizes: number of nodes of each segment, or None for a graph without segments.
        length: length after padding.
    """
    if sizes is None or bool((sizes == length).all()):
        return None
    segment, position = runs_and_positions(sizes)
    place = segment * length + position
    node = torch.arange(place.numel(), device=sizes.device)
    node_at = node.new_zeros(sizes.numel() * length).index_copy_(0, place, node)
    return Places(node_at, place)


class Tiling(NamedTuple):
    """Estimated cost of a graph on the engine ``tiles``.

    Attributes:
        pairs: number of computed pairs of target and source, plus the cost of loading sources,
            expressed as a number of pairs.
        packed: whether the graph consists of packed sequences. For these, GPUs compute only pairs
            that are edges.
    """

    pairs: int
    packed: bool = False


def _tiling(graph: Graph) -> Tiling | None:
    """Return the cost of a graph on the engine ``tiles``; None if it does not support the graph.

    The engine supports graphs in which the sources of each target are ranges of consecutive or
    evenly spaced nodes.
    """
    if isinstance(graph, Edges):
        return None
    if isinstance(graph, Permuted):
        tiling = graph.graph.derived(_tiling)
        return None if tiling is None else Tiling(tiling.pairs)
    one_run = isinstance(graph, Intervals) and graph.step == 1
    # A fast path for decoding, where each step has a new graph.
    if one_run and graph.num_targets == 1:
        return Tiling(GROUP * graph.num_edges)
    on_gpu = graph.device.type in flex.DEVICES
    if isinstance(graph, Intervals) and one_run and not on_gpu:
        return Tiling(spanned_pairs(graph.start, graph.stop, graph.num_sources))
    kernels = graph.num_edges > 0 if on_gpu else graph.device.type == "cpu" and not library.MISSING
    if not kernels or _common_step(graph) is None:
        return None
    layout: TilesLayout | FlexLayout = layout_of(graph, TilesLayout)
    if isinstance(layout, FlexLayout):
        return Tiling(layout.spanned, packed=layout.sequences is not None)
    reloaded = max(layout.brought - graph.num_sources, 0)
    return Tiling(layout.spanned + LOAD_COST * reloaded)


def _common_step(graph: Graph) -> int | None:
    """Return the least common multiple of the steps between the sources of a target.

    Returns None if it is too large, or if the sources are not ranges with a constant step.
    """
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
    runs = _tile_runs(graph, targets, sources)
    if runs.start.device.type not in flex.DEVICES:
        return TilesLayout.of(runs)
    one_run = runs.pointer is None
    sequences = sequences_of(runs.start, runs.stop, targets, sources) if one_run else None
    return FlexLayout.of(runs, graph.num_targets, graph.num_sources, sequences)


def _tile_runs(graph: Graph, targets: Tensor, sources: Tensor) -> TileRuns:
    """Return the schedule with which ``tiles`` computes a graph whose sources are ranges.

    Args:
        graph: graph in which the sources of each target are ranges of evenly spaced nodes.
        targets: number of targets of each segment.
        sources: number of sources of each segment.
    """
    if isinstance(graph, Intervals) and graph.step == 1:
        return schedule_intervals(graph.start, graph.stop, graph.in_degree(), targets, sources)
    common = _common_step(graph)
    assert common is not None
    return schedule_runs(
        _part_runs(graph),
        common_step=common,
        degree=graph.in_degree(),
        num_sources=graph.num_sources,
        num_edges=graph.num_edges,
        targets=targets,
        sources=sources,
    )


def _part_runs(graph: Graph) -> list[PartRuns]:
    """Return the ranges of sources of each part of a union; edges are numbered across all parts."""
    parts, ahead = [], 0
    for part in graph.parts:
        runs = runs_of(part)
        # The engine does not support graphs without runs.
        assert runs is not None
        first_edge = ahead + starts(runs.lengths())
        parts.append(PartRuns(runs.row, runs.start, runs.stop, first_edge, runs.step))
        ahead += part.num_edges
    return parts


MAKERS: dict[type[Any], Callable[[Graph], Any]] = {
    EdgeLayout: _edge_layout,
    DenseLayout: _dense_layout,
    RowsLayout: _rows_layout,
    TilesLayout: _tiles_layout,
}
