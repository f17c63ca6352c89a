"""Typed graphs: packing, operations that keep types, and errors."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest
import torch

from edgewise import ArgumentError, graphs
from edgewise.graphs.typed import source_pairs, stacked, target_pairs
from tests.errors import refused

SHARES, FOLLOWS = ("user", "shares", "post"), ("user", "follows", "user")
EDGES = {
    SHARES: torch.tensor([[0, 1, 1], [0, 0, 2]]),
    FOLLOWS: torch.tensor([[0], [1]]),
}
SIZES = {"user": 2, "post": 3}


def edges_by_relation(graph: graphs.TypedGraph) -> list[tuple[Any, int, int]]:
    numbers = zip(graph.edge_type.tolist(), *graph.edge_index.tolist(), strict=True)
    return sorted((graph.relations[r], source, target) for r, source, target in numbers)


def test_nodes_are_packed_by_type() -> None:
    graph = graphs.typed(EDGES, SIZES)
    assert edges_by_relation(graph) == [
        (FOLLOWS, 0, 1), (SHARES, 0, 2), (SHARES, 1, 2), (SHARES, 1, 4),
    ]  # fmt: skip
    assert graph.node_type.tolist() == [0, 0, 1, 1, 1]
    assert graph.num_nodes == SIZES
    assert graphs.typed({SHARES: EDGES[SHARES]}).num_nodes == SIZES  # The largest numbers, plus 1.


def test_features_are_packed_and_unpacked() -> None:
    graph = graphs.typed(EDGES, SIZES)
    users, posts = torch.randn(2, 4), torch.randn(3, 4)
    packed = graph.pack({"post": posts, "user": users})
    assert torch.equal(packed, torch.cat([users, posts]))
    unpacked = graph.unpack(packed)
    assert torch.equal(unpacked["post"], posts)
    assert torch.equal(graph.pack({"post": posts})[:2], torch.zeros(2, 4))
    separate = graph.pack({"post": posts, "user": users[:, :1]}, separate=True)
    assert torch.equal(separate, torch.block_diag(users[:, :1], posts).roll(-1, 1))


def test_operations_keep_the_types() -> None:
    graph = graphs.typed(EDGES, SIZES)
    both = graph.with_reverse()
    assert both.relations[2:] == (("post", "rev_shares", "user"), ("user", "rev_follows", "user"))
    reverse = [(r, t, s) for r, s, t in edges_by_relation(both.select(both.edge_type > 1))]
    names = dict(zip(both.relations[2:], (SHARES, FOLLOWS), strict=True))
    assert sorted((names[r], s, t) for r, s, t in reverse) == edges_by_relation(graph)
    transposed = graph.transpose()
    assert torch.equal(transposed.edge_index, graph.edge_index.flip(0))
    assert transposed.relations == both.relations[2:]
    for duplicate in (copy.deepcopy(both), pickle.loads(pickle.dumps(both))):
        assert edges_by_relation(duplicate) == edges_by_relation(both)


def test_pairs_of_relations_and_nodes() -> None:
    graph = graphs.typed(EDGES, SIZES)
    pairs, by_pair = graph.derived(source_pairs)
    assert (pairs.node.tolist(), pairs.sizes) == ([0, 1, 0], [2, 1])
    assert torch.equal(pairs.node[by_pair.source], graph.source)
    assert torch.equal(by_pair.target, graph.target)
    pairs, by_target, summed = graph.derived(target_pairs)
    assert (pairs.node.tolist(), pairs.sizes) == ([2, 4, 1], [2, 1])
    assert torch.equal(summed.target[by_target.target], graph.target)
    assert torch.equal(graph.derived(stacked).source // 5, graph.edge_type)


def test_hetero_data() -> None:
    data = pytest.importorskip("torch_geometric.data").HeteroData()
    data["user"].x, data["post"].num_nodes = torch.randn(2, 8), 3
    for relation, index in EDGES.items():
        data[relation].edge_index = index
    graph = graphs.from_hetero_data(data)
    assert edges_by_relation(graph) == edges_by_relation(graphs.typed(EDGES, SIZES))
    del data["post"].num_nodes
    wrong = refused("data", expected="number of nodes", got="'post'", remedy="num_nodes")
    with warnings.catch_warnings(action="ignore"), wrong:  # PyG warns before.
        graphs.from_hetero_data(data)
    with refused("data", expected="HeteroData", got="dict", remedy="graphs.typed"):
        graphs.from_hetero_data(EDGES)


def test_errors_are_named() -> None:
    with refused("num_nodes", expected="'post'", got="'user'", remedy="add it to num_nodes"):
        graphs.typed(EDGES, {"user": 2})
    with refused("num_nodes['post']", expected="at least 1", got="0", remedy="remove the type"):
        graphs.typed(EDGES, {"user": 2, "post": 0})
    with refused("edge_index", expected="targets from 0 to 1", got="2", remedy="num_nodes"):
        graphs.typed(EDGES, {"user": 2, "post": 2})
    for wrong in (EDGES[SHARES], {"shares": EDGES[SHARES]}):
        with refused("edge_indices", expected="source type", got="", remedy="shares"):
            graphs.typed(wrong, SIZES)  # type: ignore[arg-type]
    graph = graphs.typed(EDGES, SIZES)
    with refused("features", expected="[3, F]", got="[2, 4]", remedy="one row"):
        graph.pack({"post": torch.zeros(2, 4)})
    with refused("features", expected="same number", got="1 for 'user'", remedy="separate=True"):
        graph.pack({"post": torch.zeros(3, 4), "user": torch.zeros(2, 1)})
    with refused("features", expected="one dtype", got="torch.float64", remedy=".float()"):
        graph.pack({"post": torch.zeros(3, 4), "user": torch.zeros(2, 4).double()})
    with pytest.raises(ArgumentError, match="'post'"):
        graph.pack({"posts": torch.zeros(3, 4)})
