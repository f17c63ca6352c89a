"""Indices of common neighbours, against NetworkX."""

from __future__ import annotations

import pytest
import torch

from edgewise.encodings import common_neighbours, overlap
from edgewise.graphs import edges

nx = pytest.importorskip("networkx")


@pytest.mark.parametrize("chunk", [1, 50, 1 << 22])
def test_indices_are_those_of_networkx(chunk, monkeypatch):
    monkeypatch.setattr(overlap, "CHUNK", chunk)
    graph = nx.gnp_random_graph(30, 0.15, seed=0)
    pairs = torch.tensor(list(nx.non_edges(graph))).T
    links = torch.tensor(list(graph.edges)).T
    found = common_neighbours(pairs, edges(torch.cat([links, links.flip(0)], dim=1), 30))
    asked = pairs.T.tolist()
    expected = [
        [float(len(list(nx.common_neighbors(graph, *pair)))) for pair in asked],
        [score for _, _, score in nx.adamic_adar_index(graph, asked)],
        [score for _, _, score in nx.resource_allocation_index(graph, asked)],
    ]
    torch.testing.assert_close(found, torch.tensor(expected).T)


def test_a_graph_without_edges():
    empty = edges(torch.empty(2, 0, dtype=torch.long), 3)
    assert common_neighbours(torch.tensor([[0], [1]]), empty).tolist() == [[0, 0, 0]]
