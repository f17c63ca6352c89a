"""Edge terms that look themselves up are the tensors that they stand for."""

from __future__ import annotations

import torch

from edgewise import OffsetBias, Offsets, Projected, TableBias, graphs
from tests.errors import refused


def test_table() -> None:
    table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    bias = TableBias(torch.tensor([2, 0, 2, 1]), table)
    assert bias.expand().tolist() == [[5, 6], [1, 2], [5, 6], [3, 4]]
    assert bias.edges(slice(1, 3)).expand().equal(bias.expand()[1:3])
    assert bias.edges(slice(2, 2)).expand().shape == (0, 2)
    assert TableBias(torch.tensor([2, 0], dtype=torch.int32), table).expand().shape == (2, 2)
    assert TableBias(torch.empty(0, dtype=torch.long), table[:0]).expand().shape == (0, 2)


def test_projection() -> None:
    features, weight = torch.randn(5, 3), torch.randn(2, 4, 3)
    vectors = Projected(features, weight)
    for e in range(5):
        for h in range(2):
            torch.testing.assert_close(vectors.expand()[e, h], weight[h] @ features[e])
    assert vectors.edges(slice(1, 4)).expand().equal(vectors.expand()[1:4])
    assert vectors.edges(slice(3, 3)).expand().shape == (0, 2, 4)


def test_offsets() -> None:
    graph = graphs.causal().bind(4)
    place, table = torch.arange(4), torch.randn(4, 2)
    offsets = Offsets(place - 3, place, torch.arange(7).clamp(max=3), graph)
    bias = OffsetBias(offsets, table)
    distance = graph.source - graph.target + 3
    torch.testing.assert_close(bias.expand(), table[distance], rtol=0, atol=0)
    assert bias.edges(slice(2, 5)).expand().equal(table[distance[2:5]])
    wide = bias.to(torch.float64)
    assert isinstance(wide, OffsetBias)
    assert wide.offsets is offsets
    assert wide.expand().equal(table.double()[distance])


def test_every_difference_of_positions_needs_a_class() -> None:
    graph, place = graphs.causal().bind(4), torch.arange(4)
    assert Offsets(place - 3, place, torch.arange(7), graph).index.max() == 3
    with refused("Offsets.classes", expected="0 to 6", got="0 to 5", remedy="give 7 classes"):
        Offsets(place - 3, place, torch.arange(6), graph)


def test_offsets_are_moved_once() -> None:
    graph = graphs.causal().bind(4)
    offsets = Offsets(torch.arange(4) - 3, torch.arange(4), torch.arange(7), graph)
    meta = torch.device("meta")
    moved = offsets.to(meta)
    assert moved is offsets.to(meta)
    assert moved is moved.to(meta)
    assert moved.graph is graph.to(meta)
    assert {moved.classes.device, moved.target_place.device, moved.index.device} == {meta}
