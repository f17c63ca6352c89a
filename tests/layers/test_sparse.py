"""Sparse features: a linear map and dropout of them are those of the dense ones."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from edgewise.layers import Dropout, Linear
from edgewise.layers.sparse import word_graph


def sparse(x: Tensor) -> Tensor:
    with warnings.catch_warnings():  # PyTorch says once a process that this layout is young
        warnings.simplefilter("ignore", UserWarning)
        return x.to_sparse_csr()


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


def test_drops_stored_numbers_at_the_rate_asked_for_and_scales_the_others() -> None:
    torch.manual_seed(0)
    x = torch.ones(200, 100) * (torch.rand(200, 100) < 0.3)
    out = Dropout(0.25)(sparse(x)).to_dense()
    assert ((out == 0) | ((out - x / 0.75).abs() < 1e-6)).all()
    kept = float((out != 0).sum() / (x != 0).sum())
    deviation = (0.25 * 0.75 / float((x != 0).sum())) ** 0.5
    assert abs(kept - 0.75) < 5 * deviation


def test_does_nothing_when_not_training() -> None:
    x = sparse(torch.eye(3))
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_dense_features_are_dropped_as_pytorch_does() -> None:
    x = torch.ones(8, 8)
    torch.manual_seed(3)
    ours = Dropout(0.5)(x)
    torch.manual_seed(3)
    assert torch.equal(ours, torch.nn.Dropout(0.5)(x))
