"""Lightweight and dynamic convolution, by their formula: conv1d with weights under a softmax."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise import models
from edgewise.models.dynamic_conv import PredictedTaps
from edgewise.models.light_conv import FixedTaps, SoftmaxConvolution
from tests.errors import refused

WIDTH, HEADS = 12, 3


def layer(kernel: int, taps: type[nn.Module], *, is_causal: bool, **options: float) -> nn.Module:
    torch.manual_seed(0)
    made = SoftmaxConvolution(WIDTH, HEADS, kernel, taps, is_causal=is_causal, **options).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.7)
    return made


def by_conv1d(layer: nn.Module, x: Tensor) -> Tensor:
    """Of features ``[B, T, width]``: padded with zeros, a kernel for each channel."""
    x = F.glu(layer.gate(x)).mT
    before = layer.kernel - 1 if layer.is_causal else layer.kernel // 2
    x = F.pad(x, (before, layer.kernel - 1 - before))
    kernel = layer.taps.kernel.softmax(0).T.repeat_interleave(WIDTH // HEADS, 0)
    return layer.output(F.conv1d(x, kernel[:, None], groups=WIDTH).mT)


def by_loops(layer: nn.Module, x: Tensor) -> Tensor:
    """Of features ``[T, width]``, each node with a kernel of its own."""
    x = F.glu(layer.gate(x))
    weight = (x @ layer.taps.linear.weight.T).view(len(x), layer.kernel, HEADS).softmax(1)
    before = layer.kernel - 1 if layer.is_causal else layer.kernel // 2
    out = []
    for i in range(len(x)):
        total = torch.zeros(WIDTH, dtype=x.dtype)
        for k in range(layer.kernel):
            if 0 <= i + k - before < len(x):
                share = weight[i, k].repeat_interleave(WIDTH // HEADS)
                total = total + share * x[i + k - before]
        out.append(total)
    return layer.output(torch.stack(out))


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("kernel", [1, 3, 7, 31])
def test_light_convolution_is_conv1d(kernel: int, *, is_causal: bool) -> None:
    own = layer(kernel, FixedTaps, is_causal=is_causal)
    x = torch.randn(2, 9, WIDTH, dtype=torch.double, requires_grad=True)
    mine, theirs = own(x, own.graph.bind(9)), by_conv1d(own, x)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
    probe, leaves = torch.randn_like(mine), [x, *own.parameters()]
    grads = [torch.autograd.grad((out * probe).sum(), leaves) for out in (mine, theirs)]
    torch.testing.assert_close(*grads, rtol=0, atol=1e-11)


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("kernel", [1, 3, 7])
def test_dynamic_convolution_is_its_sum(kernel: int, *, is_causal: bool) -> None:
    own = layer(kernel, PredictedTaps, is_causal=is_causal)
    x = torch.randn(2, 6, WIDTH, dtype=torch.double, requires_grad=True)
    mine = own(x, own.graph.bind(6))
    theirs = torch.stack([by_loops(own, text) for text in x])
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
    probe, leaves = torch.randn_like(mine), [x, *own.parameters()]
    grads = [torch.autograd.grad((out * probe).sum(), leaves) for out in (mine, theirs)]
    torch.testing.assert_close(*grads, rtol=0, atol=1e-11)


def test_dropout_takes_weights_of_the_kernel_away() -> None:
    own = layer(3, FixedTaps, is_causal=False, dropout=0.5)
    x = torch.randn(1, 5, WIDTH, dtype=torch.double)
    torch.manual_seed(0)
    kept = own.dropout(own.taps(x).softmax(-2))
    assert kept.eq(0).any()
    torch.manual_seed(0)
    dropped = own(x, own.graph.bind(5))
    same = layer(3, FixedTaps, is_causal=False)
    assert not torch.allclose(dropped, same(x, same.graph.bind(5)))
    assert torch.equal(own.eval()(x, own.graph.bind(5)), same(x, same.graph.bind(5)))


@pytest.mark.parametrize("name", ["light_conv", "dynamic_conv"])
def test_layers_have_the_kernels_that_are_said_and_others_the_last(name: str) -> None:
    model = models.MODELS[name](11, width=WIDTH, heads=HEADS, kernels=(3, 5), depth=3)
    for side in (model.core.encoder, model.core.decoder):
        sizes = [block.attention.sublayer.kernel for block in side.layers]
        assert sizes == [3, 5, 5]
    ids = torch.randint(11, (1, 30))
    other = ids.clone()
    other[0, 0] = (ids[0, 0] + 1) % 11
    changed = (model.eval()(ids) - model(other)).abs().amax(-1)[0] > 0
    assert changed.nonzero().max() == 1 + 2 + 2, "what three layers can carry"


@pytest.mark.parametrize("name", ["light_conv", "dynamic_conv"])
def test_kernels_that_cannot_be(name: str) -> None:
    for kernels, expected, got in (((), "a kernel size", "none"), ((3, 4), "odd", "4")):
        with refused("kernels", expected=expected, got=got, remedy=""):
            models.MODELS[name](11, kernels=kernels)
    with refused("kernels", expected="for each layer", got="3", remedy="(3,)"):
        models.light_conv(9, kernels=3)  # type: ignore[arg-type]
    with refused("kernels", expected="at least 1", got="-3", remedy="choose"):
        models.MODELS[name](11, kernels=(-3,))
    with refused("heads", expected="divisor", got="5", remedy="width"):
        models.MODELS[name](11, width=12, heads=5)
