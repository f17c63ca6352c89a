"""Readout by attention, edge vectors and the scale of the targets, by their formulas."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgewise import graphs
from edgewise.layers import AttentionReadout, EdgeVectorLayer, Pool, Rescaled
from tests.errors import refused

SIZES = [3, 1, 4]


def test_attention_readout_by_its_formula() -> None:
    readout = AttentionReadout(6, 2, condition_width=3).double()
    x, condition = torch.randn(8, 6).double(), torch.randn(3, 3).double()
    out = readout(x, graphs.membership(SIZES), condition)
    for b, nodes in enumerate(x.split(SIZES)):
        query = readout.query + readout.condition(condition[b]).view(2, 3)
        key, value = readout.key(nodes).view(-1, 2, 3), readout.value(nodes).view(-1, 2, 3)
        weight = (torch.einsum("hd,nhd->nh", query, key) / 3**0.5).softmax(0)
        expected = torch.einsum("nh,nhd->hd", weight, value).flatten()
        torch.testing.assert_close(out[b], expected, rtol=0, atol=1e-12)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with refused("heads", expected="divisor of the width 6", got="4", remedy="change"):
        AttentionReadout(6, 4)


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
