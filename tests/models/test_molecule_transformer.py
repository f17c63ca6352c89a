"""The molecule transformer: bonds in key and value, and the head conditional on conditions."""

from __future__ import annotations

import pytest
import torch

from edgewise import graphs
from edgewise.models.molecule_transformer import BondLayer, ConditionalHead, molecule_transformer
from tests.errors import refused


def test_bonds_are_in_key_and_value() -> None:
    layer = BondLayer(6, 2, 3).double().eval()
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


def test_the_conditional_head_by_its_formula() -> None:
    torch.manual_seed(0)
    head = ConditionalHead(4, 3, 2, hidden=5).double()
    for weight in head.parameters():
        torch.nn.init.normal_(weight)
    z, c = torch.randn(6, 4).double(), torch.randn(6, 3).double()
    lines = head.lines(z).view(6, 2, 4)
    expected = lines[:, :, 0] + torch.einsum("bon,bn->bo", lines[:, :, 1:], c)
    expected += head.common(c) + head.rest(torch.cat([z, c], dim=1))
    torch.testing.assert_close(head(z, c), expected)


def test_things_begin_much_alike() -> None:
    torch.manual_seed(0)
    head, z, c = ConditionalHead(4, 3, 1, hidden=64), torch.randn(500, 4), torch.randn(1, 3)
    usual = head.common(torch.randn(500, 3)).std()
    assert 0 < head(z, c.expand(500, -1)).std() < usual / 5


def test_without_conditions_it_is_a_network() -> None:
    head, z = ConditionalHead(4, 0, 2, hidden=5), torch.randn(6, 4)
    torch.testing.assert_close(head(z), head.lines(z))
    torch.testing.assert_close(head(z, torch.empty(6, 0)), head(z))


def test_conditions_that_are_missing_say_so() -> None:
    with refused("global_attr", expected="3 conditions", got="none", remedy="pass this argument"):
        ConditionalHead(4, 3, 2, hidden=5)(torch.randn(6, 4))


@pytest.mark.parametrize("argument", ["global_attr", "descriptors"])
@pytest.mark.parametrize("wrong", [torch.ones(1, 3).long(), torch.ones(1, 2)])
def test_conditions_and_descriptors_that_weights_cannot_read_are_refused(
    argument: str, wrong: torch.Tensor
) -> None:
    model = molecule_transformer(2, 1, global_width=3, descriptor_width=3)
    given = {"global_attr": torch.ones(1, 3), "descriptors": torch.ones(1, 3), argument: wrong}
    graph = graphs.edges(torch.tensor([[0, 1], [1, 0]]), 2)
    with refused(
        argument, expected="[..., 3]", got=str(wrong.dtype), remedy="of the expected width"
    ):
        model(torch.ones(2, 2), graph, batch=[2], **given)
    given[argument] = torch.ones(1, 3).double()
    with refused(argument, expected="torch.float32", got="torch.float64", remedy="float32"):
        model(torch.ones(2, 2), graph, batch=[2], **given)
