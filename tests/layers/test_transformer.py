"""Residuals, norms and the Transformer layer, against PyTorch's layer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs, models
from edgewise.app.cli.peers import copy_encoder_layer
from edgewise.layers import FeedForward, NodeBatchNorm, Residual, TransformerLayer
from tests.errors import refused


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("act", ["relu", "gelu"])
@pytest.mark.parametrize("causal", [False, True])
def test_transformer_layer_equals_torch(order: str, act: str, causal: bool) -> None:
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(
        12,
        3,
        20,
        0.0,
        activation=act,
        batch_first=True,
        norm_first=order == "pre",
        dtype=torch.double,
    )
    ours = TransformerLayer(12, 3, 20, act=act, order=order).double()
    copy_encoder_layer(theirs, ours)
    x = torch.randn(2, 5, 12, dtype=torch.double)
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.double) if causal else None
    graph = graphs.causal() if causal else graphs.complete()
    torch.testing.assert_close(ours(x, graph), theirs(x, src_mask=mask), rtol=0, atol=1e-13)


def test_residual_orders_are_what_their_formulas_say() -> None:
    torch.manual_seed(0)
    sublayer, x = nn.Linear(6, 6), torch.randn(4, 6)
    post, pre = (Residual(sublayer, 6, order=order) for order in ("post", "pre"))
    torch.testing.assert_close(post(x), nn.functional.layer_norm(x + sublayer(x), [6]))
    torch.testing.assert_close(pre(x), x + sublayer(nn.functional.layer_norm(x, [6])))


def test_batch_norm_normalises_over_all_nodes() -> None:
    out = NodeBatchNorm(3)(torch.randn(4, 5, 3) * 7 + 2)
    torch.testing.assert_close(out.mean((0, 1)), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(out.var((0, 1), unbiased=False), torch.ones(3), rtol=0, atol=1e-4)


def test_batch_norm_in_a_layer_depends_on_the_other_nodes_layer_norm_does_not() -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 8)
    changed = torch.cat([x[:5], x[5:] + 3])

    def first(norm: str, x: Tensor) -> Tensor:
        torch.manual_seed(1)
        return TransformerLayer(8, 2, 16, norm=norm)(x, graphs.window(0))[0]

    torch.testing.assert_close(first("layer", x), first("layer", changed))
    assert not torch.allclose(first("batch", x), first("batch", changed))


def test_feed_forward_is_two_maps_around_a_non_linearity() -> None:
    network, x = FeedForward(4, 9, act="tanh"), torch.randn(3, 4)
    first, last = network[0], network[3]
    torch.testing.assert_close(network(x), last(first(x).tanh()))


def test_unknown_activation_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'gelu'"):
        FeedForward(4, 8, act="gellu")


@pytest.mark.parametrize("name", ["transformer", "transformer_xl", "light_conv"])
def test_an_order_that_is_neither_is_refused(name: str) -> None:
    with refused("order", expected="post", got="'before'", remedy=""):
        models.MODELS[name](11, width=8, heads=2, order="before")


def test_dropout_alone_may_be_in_training() -> None:
    """As for Monte-Carlo estimates of what a model is unsure of."""
    layer = TransformerLayer(8, 2, 16, dropout=0.5).eval()
    x = torch.randn(3, 8)
    before = layer(x, graphs.complete())
    for module in layer.modules():
        module.training = isinstance(module, nn.Dropout)
    assert not torch.equal(layer(x, graphs.complete()), before)
