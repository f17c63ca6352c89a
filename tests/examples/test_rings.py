"""Rings: one ring of six nodes or two rings of three, in any order of the nodes."""

from __future__ import annotations

import pytest
import torch
from edgewise_examples import data
from edgewise_examples.data.rings import rings

from edgewise.encodings import wl_colors


def test_graphs_have_the_rings_of_their_class() -> None:
    nx = pytest.importorskip("networkx")
    for count, order in [(1, torch.randperm(6)), (2, torch.randperm(6))]:
        found = nx.Graph(rings(count, order).T.tolist())
        assert sorted(map(len, nx.connected_components(found))) == [6 // count] * count
        assert all(degree == 2 for _node, degree in found.degree)


def test_message_passing_cannot_distinguish_the_classes() -> None:
    splits = data.rings(count=10).load()
    batch = splits.test.make(torch.arange(10))
    (x, graph), target = batch.inputs, batch.target
    assert torch.bincount(target).tolist() == [5, 5]
    assert x.shape == (60, 1)
    assert len(wl_colors(graph, 6).unique()) == 1
