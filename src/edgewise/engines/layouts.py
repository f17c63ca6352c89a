"""Layouts: the form in which each engine stores a graph, built once and cached on the graph.

An engine is one implementation of :func:`edgewise.attend`, such as ``dense``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from edgewise._utils.ragged import runs_and_positions, starts
from edgewise.engines import triton_rows
from edgewise.engines.call import GraphFacts
from edgewise.engines.dense import DenseLayout, Padding
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


def execution_parts(graph: Graph) -> Sequence[Graph]:
    """Return the members of a union, which may be computed on different engines and then merged.

    Members whose sources are ranges form one of them, if there are others too.
    """
    return graph.derived(_execution_parts)


def _execution_parts(graph: Graph) -> Sequence[Graph]:
    runs = [member for member in graph.parts if isinstance(member, Intervals | Runs)]
    if not 0 < len(runs) < len(graph.parts):
        return graph.parts
    # In a union, the members made of runs come first.
    others = graph.parts[len(runs) :]
    return disjoint_union(runs, graph.num_targets, graph.num_sources), *others


def _edge_layout(graph: Graph) -> EdgeLayout:
    source, target = graph.edge_index
    return EdgeLayout(source, target, graph.num_targets, graph.num_sources)


def _rows_layout(graph: Graph) -> RowsLayout:
    on_cpu = graph.device.type == "cpu" and not triton_rows.INTERPRETED
    kind = RowsLayout if on_cpu or not triton_rows.serves(graph.device) else TritonLayout
    source, target = graph.edge_index
    return kind(source, target, graph.num_targets, graph.num_sources)


def graph_facts(graph: Graph) -> GraphFacts:
    """Return the numbers for the choice of an engine; call it as ``graph.derived(graph_facts)``."""
    blocks, rows, columns = _dense_shape(graph)
    num_edges, grid = graph.num_edges, blocks * rows * columns
    tiling = _tiling(graph)
    return GraphFacts(
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

    Segments of a packed batch get separate blocks if these are smaller than one block in all.
    """
    one_block = 1, graph.num_targets, graph.num_sources
    if graph.segments is None or not graph.segments[0].numel():
        return one_block
    targets, sources = graph.segments
    shape = targets.numel(), int(targets.max()), int(sources.max())
    return shape if math.prod(shape) < math.prod(one_block) else one_block


def _dense_layout(graph: Graph) -> DenseLayout:
    shape = _dense_shape(graph)
    blocks, rows, columns = shape
    facts = graph.derived(graph_facts)
    num_pairs, full = facts.grid, facts.full

    def edges() -> EdgeLayout:
        return layout_of(graph, EdgeLayout)

    if full and num_pairs == graph.num_edges:
        return DenseLayout(*shape, list_edges=edges)
    targets, sources = graph.segments if graph.segments and blocks > 1 else (None, None)
    row_padding, column_padding = _padding(targets, rows), _padding(sources, columns)
    row = graph.target if row_padding is None else row_padding.position[graph.target]
    column = graph.source if column_padding is None else column_padding.position[graph.source]
    slot = row * columns + column % max(columns, 1)
    if full:
        return DenseLayout(*shape, list_edges=edges, causal=True, slot=slot)
    mask = torch.zeros(num_pairs, dtype=torch.bool, device=graph.device).index_fill_(0, slot, True)
    return DenseLayout(
        *shape,
        list_edges=edges,
        row_padding=row_padding,
        column_padding=column_padding,
        mask=mask.view(shape),
        slot=slot,
    )


def _padding(sizes: Tensor | None, length: int) -> Padding | None:
    """Return the padding of segments to ``length``; None if it is not needed."""
    if sizes is None or bool((sizes == length).all()):
        return None
    segment, position = runs_and_positions(sizes)
    padded_position = segment * length + position
    node = torch.arange(padded_position.numel(), device=sizes.device)
    node_at = node.new_zeros(sizes.numel() * length).index_copy_(0, padded_position, node)
    return Padding(node_at, padded_position)


class Tiling(NamedTuple):
    """Estimated cost of a graph on the engine ``tiles``."""

    pairs: int  # Computed pairs of target and source, plus the cost of loading sources.
    packed: bool = False  # Whether the graph consists of packed sequences; see ``tiles/varlen.py``.


def _tiling(graph: Graph) -> Tiling | None:
    """Return the cost of a graph on the engine ``tiles``; None if it does not support the graph."""
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
    """Return the least common multiple of the steps of all ranges; None if too large."""
    steps = [member.step for member in graph.parts if isinstance(member, Intervals | Runs)]
    if len(steps) < len(graph.parts):
        return None
    common = math.lcm(*steps)
    return common if common <= MOST_STEPS * min(steps) else None


def _tiles_layout(graph: Graph) -> TilesLayout | FlexLayout:
    if isinstance(graph, Permuted):
        by_position: TilesLayout | FlexLayout = layout_of(graph.graph, TilesLayout)
        return by_position.permuted(graph.target_perm, graph.source_perm)
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
    """Return the schedule for a graph whose sources are ranges; the arguments are segment sizes."""
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
    member_runs, first = [], 0
    for member in graph.parts:
        runs = runs_of(member)
        # The engine does not support graphs without runs.
        assert runs is not None
        first_edge = first + starts(runs.lengths())
        member_runs.append(PartRuns(runs.row, runs.start, runs.stop, first_edge, runs.step))
        first += member.num_edges
    return member_runs


MAKERS: dict[type[Any], Callable[[Graph], Any]] = {
    EdgeLayout: _edge_layout,
    DenseLayout: _dense_layout,
    RowsLayout: _rows_layout,
    TilesLayout: _tiles_layout,
}
