"""Batches that are cut out of one node axis are what packing the graphs one by one gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgewise import graphs
from edgewise.app.train import PackedGraphs
from tests.errors import refused

EDGES = [[(0, 1), (1, 0), (1, 2)], [], [(0, 0)], []]
SIZES = [3, 2, 1, 0]


def index_of(pairs: list[tuple[int, int]]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T


def packed() -> PackedGraphs:
    nodes = [10.0 * g + torch.arange(n)[:, None] for g, n in enumerate(SIZES)]
    features = [10.0 * g + torch.arange(len(p))[:, None] for g, p in enumerate(EDGES)]
    return PackedGraphs.of(nodes, [index_of(p) for p in EDGES], features)


@pytest.mark.parametrize("which", [[0, 1, 2, 3], [2], [1, 3], [0, 2], [3]])
def test_a_batch_is_the_packed_graphs(which: list[int]) -> None:
    x, graph, members, edges = packed().take(torch.tensor(which))
    alone = [graphs.edges(index_of(EDGES[g]), SIZES[g]) for g in which]
    expected = graphs.batch(alone)
    assert torch.equal(graph.edge_index, expected.edge_index)
    assert graph.num_targets == expected.num_targets == sum(SIZES[g] for g in which)
    assert torch.equal(graph.segments[0], expected.segments[0])
    assert x.flatten().tolist() == [10 * g + i for g in which for i in range(SIZES[g])]
    assert edges.flatten().tolist() == [10 * g + i for g in which for i in range(len(EDGES[g]))]
    together = graphs.membership([SIZES[g] for g in which])
    assert torch.equal(members.dense(), together.dense())


def test_each_output_reads_its_own_graph_which_is_there_once() -> None:
    x, _, members, _ = packed().take(torch.tensor([2, 0, 2, 0]))
    assert len(x) == SIZES[0] + SIZES[2]
    read = [x[row].flatten().tolist() for row in members.dense()]
    assert read == [[20], [0, 1, 2], [20], [0, 1, 2]]


def test_nothing_to_pack_is_refused() -> None:
    with refused("graphs", expected="at least one", got="none", remedy="give at least one graph"):
        PackedGraphs.of([], [], [])


def test_features_that_are_no_numbers_are_refused() -> None:
    none = torch.empty(2, 0, dtype=torch.long)
    with refused("features", expected="finite", got="1 NaN", remedy="drop or fill"):
        PackedGraphs.of([torch.tensor([[float("nan")]])], [none], [torch.empty(0, 1)])
