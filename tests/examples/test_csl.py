"""CSL: circulant graphs in any order of their nodes, a fifth of each class in every fold."""

from __future__ import annotations

import pytest
import torch
from edgewise_examples import data
from edgewise_examples.data.csl import NODES, SKIPS, circulant

from edgewise import graphs


def test_a_graph_is_circulant() -> None:
    nx = pytest.importorskip("networkx")
    order = torch.randperm(NODES)
    for skip in SKIPS:
        found = nx.Graph(circulant(skip, order).T.tolist())
        ring = nx.relabel_nodes(
            nx.circulant_graph(NODES, [1, skip]), dict(enumerate(order.tolist()))
        )
        assert set(map(frozenset, found.edges)) == set(map(frozenset, ring.edges))


def test_each_fold_has_its_share_and_every_graph_is_tested_once() -> None:
    seen = []
    for fold in range(5):
        splits = data.csl(fold=fold).load()
        batch = splits.test.make(torch.arange(splits.test.count))
        (x, graph), target = batch.inputs, batch.target
        assert torch.bincount(target).tolist() == [3] * 10
        assert x.shape == (30 * NODES, 1)
        assert (graph.in_degree() == 4).all()
        assert isinstance(graph, graphs.Graph)
        seen += [
            tuple(part.flatten().tolist()) for part in graph.edge_index.split(4 * NODES, dim=1)
        ]
        assert splits.train.count + splits.val.count == 120
    assert len(seen) == 150
