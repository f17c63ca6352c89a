"""Multi-head attention: both of the taught forms, against PyTorch's module and by hand."""

from __future__ import annotations

from inspect import signature

import pytest
import torch
from torch import nn

import edgewise as ew
from edgewise import graphs
from edgewise.app.cli.peers import copy_multi_head
from edgewise.encodings import Rotary
from edgewise.layers import Cache, JointLinear, LinearByHead, MultiHeadAttention
from edgewise.models import MODELS
from tests.errors import refused


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
    for mine, name in ((ours.qkv.weight, "in_proj_weight"), (ours.qkv.bias, "in_proj_bias")):
        torch.testing.assert_close(mine.grad, getattr(theirs, name).grad, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        ours.output.weight.grad, theirs.out_proj.weight.grad, rtol=0, atol=1e-12
    )


def test_cross_attention_equals_torch() -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention(12, 3, source_width=12).double()
    copy_multi_head(theirs, ours)
    x, memory = (torch.randn(2, n, 12, dtype=torch.float64) for n in (5, 7))
    out = ours(x, graphs.complete(), source=memory)
    torch.testing.assert_close(out, theirs(x, memory, memory)[0], rtol=0, atol=1e-13)


def test_its_weights_are_those_of_torch() -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention(12, 3).double()
    copy_multi_head(theirs, ours)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    _, other = theirs(x, x, x, average_attn_weights=False)  # [B, H, targets, sources]
    weights = ours.weights(x, graphs.complete()).unflatten(1, (5, 5)).movedim(-1, 1)
    torch.testing.assert_close(weights, other, rtol=0, atol=1e-13)


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
    x = torch.randn(3, 4)
    changed = x.clone()
    changed[0] += 1.0
    rows = slice(1, None)  # nobody reads node 0, which reads others itself
    torch.testing.assert_close(
        layer(x, graph, bias=bias)[rows], layer(changed, graph, bias=bias)[rows]
    )


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


@pytest.mark.parametrize("projections", ["full", "split"])
def test_grouped_heads_share_keys_and_values(projections: str) -> None:
    torch.manual_seed(0)
    grouped = MultiHeadAttention(12, 6, key_heads=2, projections=projections).double()
    x = torch.randn(2, 5, 12, dtype=torch.double)
    if projections == "full":
        query, key, value = grouped.qkv(x).split((12, 4, 4), dim=-1)
    else:
        query, key, value = grouped.query(x), grouped.key(x), grouped.value(x)
    query = query.unflatten(-1, (6, 2))
    key, value = (part.unflatten(-1, (2, 2)).repeat_interleave(3, dim=-2) for part in (key, value))
    expected = grouped.output(ew.attend(query, key, value, graphs.causal()).flatten(-2))
    torch.testing.assert_close(grouped(x, graphs.causal()), expected)


def test_heads_may_be_wider_than_their_share() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(10, 3, head_width=7).double()
    x = torch.randn(4, 10, dtype=torch.double)
    query, key, value = layer.qkv(x).view(4, 3, 3, 7).unbind(1)
    expected = layer.output(ew.attend(query, key, value, graphs.complete()).flatten(-2))
    torch.testing.assert_close(layer(x, graphs.complete()), expected)


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
    layer = MultiHeadAttention(8, 2, source_width=8, rotary=Rotary(4))
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


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("projections", ["full", "split"])
def test_self_attention_is_attend_of_its_three_projections(projections: str, grad: bool) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 3, projections=projections).double()
    x = torch.randn(2, 7, 12, dtype=torch.double, requires_grad=grad)
    if projections == "full":
        parts = [nn.functional.linear(x, w, b) for w, b in zip(
            layer.qkv.weight.chunk(3), layer.qkv.bias.chunk(3), strict=True)]  # fmt: skip
    else:
        parts = [layer.query(x), layer.key(x), layer.value(x)]
    query, key, value = (part.unflatten(-1, (3, 4)) for part in parts)
    expected = layer.output(ew.attend(query, key, value, graphs.causal()).flatten(-2))
    out = layer(x, graphs.causal())
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)
    if grad:
        leaves = [x, *layer.parameters()]
        ours, others = (torch.autograd.grad(y.square().sum(), leaves) for y in (out, expected))
        torch.testing.assert_close(ours, others, rtol=0, atol=1e-11)


def test_hooks_on_the_projection_are_called() -> None:
    layer, x = MultiHeadAttention(12, 3), torch.randn(5, 12)
    expected = layer(x, graphs.causal())
    layer.qkv.register_forward_hook(lambda _module, _inputs, out: 2 * out)
    assert not torch.allclose(layer(x, graphs.causal()), expected)


@pytest.mark.parametrize("bias", [True, False])
def test_a_joint_map_begins_as_its_parts_would(bias: bool) -> None:
    torch.manual_seed(0)
    joint = JointLinear(10, (6, 4, 4), bias=bias)
    torch.manual_seed(0)
    parts = [nn.Linear(10, width, bias=bias) for width in (6, 4, 4)]
    x = torch.randn(3, 10)
    torch.testing.assert_close(joint(x), torch.cat([part(x) for part in parts], dim=-1))
    assert torch.equal(joint.weight, torch.cat([part.weight for part in parts]))


def test_a_source_is_for_cross_attention_alone() -> None:
    x = torch.randn(3, 8)
    with refused("source", expected="None for self-att", got="shape [3, 8]", remedy="source_width"):
        MultiHeadAttention(8, 2)(x, graphs.complete(), x)
    with refused("source", expected="features to attend to", got="none", remedy="source_width"):
        MultiHeadAttention(8, 2, source_width=8)(x, graphs.complete())


def test_unknown_projections_suggest_the_nearest() -> None:
    with refused("projections", expected="split", got="'spilt'", remedy="did you mean 'split'"):
        MultiHeadAttention(8, 2, projections="spilt")


@pytest.mark.parametrize(
    "name", [name for name, make in MODELS.items() if "projections" in signature(make).parameters]
)
def test_a_model_may_have_split_projections(name: str) -> None:
    """A head then sees a part of the input alone, so that its maps have fewer weights."""
    arguments = {"vit": (8, 1, 3), "graph_transformer": (4, 3)}.get(name, (9,))
    options = {"depth": 1, "heads": 3} if arguments == (9,) else {"depth": 1, "heads": 2}
    if name != "transformer_encoder":  # which is given its width first
        options |= {"width": 6 * options["heads"]}
    for projections, kind in (("full", JointLinear), ("split", LinearByHead)):
        model = MODELS[name](*arguments, **options, projections=projections)
        layers = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
        first = layers[0].qkv if projections == "full" else layers[0].query
        assert layers
        assert isinstance(first, kind)
        for layer in layers:
            assert (layer.qkv is None) == (projections == "split" or layer.source_width is not None)
