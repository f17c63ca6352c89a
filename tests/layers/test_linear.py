"""A linear map of sparse features is the linear map of the dense ones."""

from __future__ import annotations

import pytest
import torch

from edgewise.layers import Dropout, Linear
from edgewise.layers.linear import word_graph
from tests.layers.test_dropout import sparse


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("nodes", "words"), [(0, 3), (1, 1), (7, 5), (40, 90)])
def test_equals_the_dense_map_with_every_gradient(nodes: int, words: int, bias: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(nodes, words).double() * (torch.rand(nodes, words) < 0.3)
    layer = Linear(words, 6, bias=bias).double()
    expected, y = layer(x), layer(sparse(x))
    grad = torch.randn_like(expected)
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
    weights = list(layer.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(y, weights, grad),
        torch.autograd.grad(expected, weights, grad),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_the_graph_of_the_words_is_made_once_and_survives_dropout() -> None:
    x = sparse(torch.eye(4))
    dropped = Dropout(0.5)(x)
    assert word_graph(dropped) is word_graph(x)


def test_dropped_numbers_are_the_ones_that_are_read() -> None:
    torch.manual_seed(1)
    dropped = Dropout(0.5)(sparse(torch.ones(5, 8)))
    layer = Linear(8, 3)
    torch.testing.assert_close(layer(dropped), layer(dropped.to_dense()))


def test_loads_the_weights_of_pytorchs_own() -> None:
    theirs = torch.nn.Linear(4, 2)
    ours = Linear(4, 2)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(3, 4)
    assert torch.equal(ours(x), theirs(x))
