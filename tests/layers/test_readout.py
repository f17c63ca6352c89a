"""Pooling by a graph, edge vectors and the scale of the targets, by their formulas."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgewise import graphs
from edgewise.layers import EdgeVectorLayer, Pool, Rescaled

SIZES = [3, 1, 4]


@pytest.mark.parametrize("how", ["mean", "sum", "max", "class"])
def test_pooling_by_a_graph_of_membership_is_pooling_by_sizes(how: str) -> None:
    x = torch.randn(8, 5)
    assert torch.equal(Pool(how)(x, graphs.membership(SIZES)), Pool(how)(x, SIZES))


def test_edge_vectors_are_in_key_and_value() -> None:
    layer = EdgeVectorLayer(6, 2, 3).double().eval()
    x, edges = torch.randn(4, 6).double(), torch.randn(5, 3).double()
    graph = graphs.edges(torch.tensor([[0, 1, 2, 3, 0], [1, 2, 2, 0, 0]]), 4)
    attention = layer.layer.attention
    key, value = (torch.einsum("ef,hdf->ehd", edges, weight) for weight in layer.edge)
    normed = attention.norm(x)
    heads = attention.sublayer(normed, graph, edge_key=key, edge_value=value)
    expected = layer.layer.feed_forward(x + heads)
    torch.testing.assert_close(layer(x, graph, edges), expected, rtol=0, atol=1e-12)
    without = layer(x, graph, torch.zeros_like(edges))
    assert not torch.allclose(without[:3], expected[:3])


def test_rescaled_gives_the_unit_of_the_targets_and_saves_it() -> None:
    model = Rescaled(nn.Linear(2, 1), mean=10.0, std=3.0)
    x = torch.randn(4, 2)
    torch.testing.assert_close(model(x), 10 + 3 * model.model(x))
    other = Rescaled(nn.Linear(2, 1), mean=0.0, std=1.0)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(x), model(x))
    fraction = Rescaled(model.model, mean=10.0, std=3.0, fraction=True)
    torch.testing.assert_close(fraction(x).logit(), model(x), rtol=1e-3, atol=1e-3)
