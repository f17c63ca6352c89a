"""Slices of targets and of sources are those of the edge list, in its order."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from edgewise import graphs
from edgewise.graphs import Graph
from edgewise.graphs.slices import (
    SourceRanges,
    edges_of_sources,
    edges_of_targets,
    slice_sources,
    slice_targets,
)
from tests.errors import case
from tests.graphs import algebra
from tests.graphs.specification import BIPARTITE, PATTERNS, REPRESENTATIVES, Spec, batch, multiset

SPECS = [
    *[*PATTERNS, multiset(), batch(PATTERNS[0]), batch(PATTERNS[2])],
    *[
        algebra.compose(left, sign, right)
        for left, sign, right in product(REPRESENTATIVES[:4], algebra.BINARY, REPRESENTATIVES[:4])
    ],
]


def graphs_of(spec: Spec) -> list[Graph]:
    sizes = [(8, 8), (5, 5), *BIPARTITE]
    return [spec.bind(*size) for size in sizes if spec.matrix(*size) is not None]


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_slices_are_those_of_the_edge_list(spec: Spec) -> None:
    for graph in graphs_of(spec):
        source, target = graph.edge_index
        for first, last in ((0, 0), (0, 2), (1, 4), (3, 5), (0, 8)):
            if last <= graph.num_targets:
                with case(("targets", graph, first, last)):
                    edges = edges_of_targets(graph, first, last)
                    expected = torch.stack([source[edges], target[edges] - first])
                    agree(
                        slice_targets(graph, first, last), expected, last - first, graph.num_sources
                    )
            if last <= graph.num_sources:
                with case(("sources", graph, first, last)):
                    edges = edges_of_sources(graph, first, last)
                    expected = torch.stack([source[edges] - first, target[edges]])
                    agree(
                        slice_sources(graph, first, last), expected, graph.num_targets, last - first
                    )


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_ranges_renumber_the_sources(spec: Spec) -> None:
    for graph in graphs_of(spec):
        with case(graph):
            local = slice_targets(graph, graph.num_targets // 3, graph.num_targets)
            ranges = SourceRanges.of(local)
            compact, sources = ranges.renumber(local), ranges.sources()
            assert compact.num_sources == len(sources)
            assert set(local.source.tolist()) <= set(sources.tolist())
            assert torch.equal(sources[compact.source], local.source)
            agree(compact, compact.edge_index, local.num_targets, len(sources))
            assert torch.equal(compact.target, local.target)


def agree(graph: Graph, edge_index: torch.Tensor, targets: int, sources: int) -> None:
    assert (graph.num_targets, graph.num_sources) == (targets, sources)
    assert torch.equal(graph.edge_index, edge_index)
    dense = torch.zeros(targets, sources, dtype=torch.bool)
    dense[edge_index[1], edge_index[0]] = True
    assert torch.equal(graph.dense(), dense)


def test_a_window_stays_intervals_and_its_halo_is_its_ends() -> None:
    local = slice_targets(graphs.window(3).bind(1000), 400, 600)
    ranges = SourceRanges.of(local)
    assert isinstance(ranges.renumber(local), graphs.Intervals)
    assert ranges.sources().tolist() == list(range(397, 603))


def test_hubs_and_a_dilated_window_stay_ranges() -> None:
    pattern = graphs.window(2, dilation=4) | graphs.hubs([0, 1], reads=False)
    local = slice_targets(pattern.bind(1000), 400, 600)
    ranges = SourceRanges.of(local)
    assert ranges.start.tolist() == [0, 392]
    assert ranges.stop.tolist() == [2, 608]
    for member in ranges.renumber(local).parts:
        assert isinstance(member, graphs.Intervals | graphs.Runs)
