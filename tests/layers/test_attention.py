"""Multi-head attention: both of the taught forms, against PyTorch's module and by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import edgewise as ew
from edgewise import graphs
from edgewise.cli.peers import copy_multi_head
from edgewise.encodings import Rotary
from edgewise.layers import Cache, LinearByHead, MultiHeadAttention


def test_equals_torch_with_gradients_of_every_weight() -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention(12, 3).double()
    copy_multi_head(theirs, ours)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    out, other = ours(x, graphs.complete()), theirs(x, x, x)[0]
    torch.testing.assert_close(out, other, rtol=0, atol=1e-13)
    out.square().sum().backward()
    other.square().sum().backward()
    stacked = torch.cat([ours.query.weight.grad, ours.key.weight.grad, ours.value.weight.grad])
    torch.testing.assert_close(stacked, theirs.in_proj_weight.grad, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        ours.output.weight.grad, theirs.out_proj.weight.grad, rtol=0, atol=1e-12
    )


def test_cross_attention_equals_torch() -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention(12, 3).double()
    copy_multi_head(theirs, ours)
    x, memory = (torch.randn(2, n, 12, dtype=torch.float64) for n in (5, 7))
    out = ours(x, graphs.complete(), source=memory)
    torch.testing.assert_close(out, theirs(x, memory, memory)[0], rtol=0, atol=1e-13)


def test_split_form_sends_part_h_of_the_input_to_head_h() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, projections="split", bias=False).double()
    layer.output.weight.data = torch.eye(8, dtype=torch.float64)
    x = torch.randn(5, 8, dtype=torch.float64)
    out = layer(x, graphs.window(1))
    for head in range(2):
        part = x[:, 4 * head : 4 * head + 4]
        query, key, value = (
            (part @ linear.weight[head].T)[:, None]
            for linear in (layer.query, layer.key, layer.value)
        )
        alone = ew.attend(query, key, value, graphs.window(1))[:, 0]
        torch.testing.assert_close(out[:, 4 * head : 4 * head + 4], alone)


def test_split_form_has_fewer_weights_by_the_number_of_heads() -> None:
    full, split = nn.Linear(12, 12, bias=False), LinearByHead(3, 12, 12, bias=False)
    assert full.weight.numel() == 3 * split.weight.numel()


def test_linear_by_head_is_a_block_diagonal_linear_map() -> None:
    torch.manual_seed(0)
    split, full = LinearByHead(3, 6, 12), nn.Linear(6, 12)
    full.weight.data = torch.block_diag(*split.weight.data)
    full.bias.data = split.bias.data = torch.randn(12)
    x = torch.randn(4, 5, 6)
    torch.testing.assert_close(split(x), full(x))


def test_edge_terms_reach_the_primitive() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(4, 2)
    graph = graphs.complete().bind(3)
    bias = torch.zeros(9, 2)
    bias[graph.source == 0] = -torch.inf
    blocked = layer(torch.randn(3, 4), graph, bias=bias)
    x = torch.randn(3, 4)
    changed = x.clone()
    changed[0] += 1.0
    rows = slice(1, None)  # nobody reads node 0, which reads others itself
    torch.testing.assert_close(
        layer(x, graph, bias=bias)[rows], layer(changed, graph, bias=bias)[rows]
    )
    assert blocked.shape == (3, 4)


def test_dropout_only_in_training() -> None:
    layer, x = MultiHeadAttention(4, 2, dropout=0.5), torch.randn(6, 4)
    assert not torch.equal(layer(x, graphs.complete()), layer(x, graphs.complete()))
    layer.eval()
    assert torch.equal(layer(x, graphs.complete()), layer(x, graphs.complete()))


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(
        ew.ArgumentError, match="`heads`: expected a divisor of the width 10; got 4"
    ):
        MultiHeadAttention(10, 4)


def test_grouped_heads_share_keys_and_values() -> None:
    torch.manual_seed(0)
    grouped, full = MultiHeadAttention(12, 6, key_heads=2), MultiHeadAttention(12, 6)
    assert grouped.key.weight.shape == grouped.value.weight.shape == (4, 12)
    full.load_state_dict(
        {
            name: tensor.unflatten(0, (2, 2)).repeat_interleave(3, dim=0).flatten(0, 1)
            if name.startswith(("key", "value"))
            else tensor
            for name, tensor in grouped.state_dict().items()
        }
    )
    x = torch.randn(2, 5, 12)
    torch.testing.assert_close(grouped(x, graphs.causal()), full(x, graphs.causal()))


def test_split_form_has_grouped_heads_too() -> None:
    layer = MultiHeadAttention(12, 6, key_heads=2, projections="split")
    assert layer(torch.randn(5, 12), graphs.complete()).shape == (5, 12)


def test_heads_may_be_wider_than_their_share() -> None:
    layer = MultiHeadAttention(10, 3, head_width=7)
    assert layer.query.weight.shape == (21, 10)
    assert layer(torch.randn(4, 10), graphs.complete()).shape == (4, 10)


@pytest.mark.parametrize("heads", [4, 0])
def test_key_heads_must_divide_the_heads(heads: int) -> None:
    if heads:
        with pytest.raises(ew.ArgumentError, match="`key_heads`: expected a divisor of the number"):
            MultiHeadAttention(12, 6, key_heads=heads)
    else:
        with pytest.raises(ew.ArgumentError, match="`heads`: expected a divisor of the width 12"):
            MultiHeadAttention(12, 0)


def test_rotary_attention_does_not_change_when_all_positions_shift() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, rotary=Rotary(4)).double()
    x = torch.randn(6, 8, dtype=torch.double)
    at_zero = layer(x, graphs.causal())
    shifted = layer(x, graphs.causal(), positions=torch.arange(6) + 17)
    torch.testing.assert_close(shifted, at_zero)
    stretched = layer(x, graphs.causal(), positions=3 * torch.arange(6))
    assert not torch.allclose(stretched, at_zero)
    assert not torch.allclose(layer(x.flip(0), graphs.complete()).flip(0), at_zero)


def test_rotary_leaves_another_source_alone() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, rotary=Rotary(4))
    x, source = torch.randn(3, 8), torch.randn(5, 8)
    out = layer(x, graphs.complete(), source)
    order = torch.randperm(5)
    torch.testing.assert_close(layer(x, graphs.complete(), source[order]), out)


def test_a_cache_without_positions_counts_on() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, rotary=Rotary(4), key_heads=1).double()
    x, cache = torch.randn(2, 6, 8, dtype=torch.double), Cache()
    parts = []
    for part in x.split((3, 1, 2), dim=1):
        graph = graphs.causal().bind(part.shape[1], cache.length + part.shape[1])
        parts.append(layer(part, graph, cache=cache))
        cache.length += part.shape[1]
    torch.testing.assert_close(torch.cat(parts, dim=1), layer(x, graphs.causal()))


def long_enough(layer: MultiHeadAttention) -> torch.Tensor:
    """Features as many as the weights of all three maps, so that one product is worth it."""
    width = layer.query.weight.shape[1]
    return torch.randn(2, 2 * width, width, dtype=torch.float64)


def test_one_product_gives_what_three_do() -> None:
    layer = MultiHeadAttention(12, 3).double()
    x = long_enough(layer).requires_grad_()
    assert layer._joint(x) is not None
    together = layer(x, graphs.causal())
    with torch.no_grad():
        assert layer._joint(x) is None
        torch.testing.assert_close(together, layer(x, graphs.causal()), rtol=0, atol=1e-13)
    leaves = [x, *layer.parameters()]
    gradients = torch.autograd.grad(together.square().sum(), leaves)
    layer.query.register_forward_hook(lambda *_: None)  # so that they are called one by one
    assert layer._joint(x) is None
    apart = torch.autograd.grad(layer(x, graphs.causal()).square().sum(), leaves)
    for ours, theirs in zip(gradients, apart, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)


def unlike(layer: MultiHeadAttention) -> None:
    layer.query.bias = None


def hooked(layer: MultiHeadAttention) -> None:
    layer.key.register_full_backward_hook(lambda *_: None)


def patched(layer: MultiHeadAttention) -> None:
    forward = layer.value.forward
    layer.value.forward = lambda x: 2 * forward(x)  # type: ignore[method-assign]


@pytest.mark.parametrize("change", [unlike, hooked, patched], ids=lambda f: f.__name__)
def test_maps_that_are_more_than_a_weight_and_a_bias_are_called(change: Any) -> None:
    layer = MultiHeadAttention(12, 3).double()
    change(layer)
    x = long_enough(layer)
    with torch.no_grad():
        expected = layer(x, graphs.causal())
    torch.testing.assert_close(layer(x, graphs.causal()), expected, rtol=0, atol=1e-13)
    assert layer._joint(x) is None
