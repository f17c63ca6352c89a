"""Linformer and Performer: their formulas, and how far they are from softmax attention."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import edgewise as ew
from edgewise import graphs, models
from edgewise.layers import Cache, SequenceBatch, TextModel
from edgewise.models.linformer import LinformerAttention
from edgewise.models.performer import (
    CHUNK,
    PerformerAttention,
    linear_attention,
    orthogonal_features,
    prefix_attention,
)
from tests.errors import refused

VOCABULARY = 11


def small(name: str, **options: object) -> TextModel:
    torch.manual_seed(0)
    numbers: dict[str, object] = {"width": 8, "depth": 2, "heads": 2, "ffn_dim": 12}
    model = models.MODELS[name](VOCABULARY, **{**numbers, **options}).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return model


def ids(count: int, batch: int = 2) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (batch, count))


@pytest.mark.parametrize("sharing", ["heads", "key_values", "layers"])
def test_linformer_is_its_formula(sharing: str) -> None:
    torch.manual_seed(0)
    layer = LinformerAttention(8, 2, 3, 10, sharing).double()
    shared = torch.randn(3, 10, dtype=torch.float64)
    x = torch.randn(2, 7, 8, dtype=torch.float64)
    query, key, value = layer.qkv(x).view(2, 7, 3, 2, 4).unbind(-3)
    of_keys = {"heads": layer.of_keys, "key_values": layer.of_keys, "layers": shared}[sharing]
    of_values = layer.of_values if sharing == "heads" else of_keys
    heads = []
    for head in range(2):
        projected_keys = of_keys[:, :7] @ key[:, :, head]
        projected_values = of_values[:, :7] @ value[:, :, head]
        scores = query[:, :, head] @ projected_keys.transpose(1, 2) / math.sqrt(4)
        heads.append(scores.softmax(-1) @ projected_values)
    expected = layer.output(torch.cat(heads, -1))
    out = layer(x, graphs.complete(), shared=shared)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sharing", ["heads", "key_values", "layers"])
def test_linformer_is_the_model_of_the_paper_with_every_gradient(sharing: str) -> None:
    """Equation 7 in every layer of BERT (post-norm, GELU), in plain PyTorch, head by head."""
    model = small("linformer", sharing=sharing, rank=3, max_length=10)
    weights, text = dict(model.named_parameters()), ids(7)

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (8,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    x = weights["embedding.tokens.weight"][text] + weights["embedding.positions.table"][:7]
    x = norm(x, "embedding.norm")
    for layer in range(2):
        at = f"backbone.layers.{layer}"
        attention = f"{at}.attention.sublayer"
        own = weights.get(f"{attention}.of_keys")
        e = weights["backbone.shared"] if own is None else own
        f = weights.get(f"{attention}.of_values", e)
        w_q, w_k, w_v = weights[f"{attention}.qkv.weight"].chunk(3)
        b_q, b_k, b_v = weights[f"{attention}.qkv.bias"].chunk(3)
        heads = []
        for head in range(2):
            rows = slice(4 * head, 4 * head + 4)
            q, k, v = (x @ w[rows].T + b[rows] for w, b in ((w_q, b_q), (w_k, b_k), (w_v, b_v)))
            weight = (q @ (e[:, :7] @ k).transpose(1, 2) / 4**0.5).softmax(-1)  # n × k
            assert weight.shape == (2, 7, 3)
            heads.append(weight @ (f[:, :7] @ v))
        mixed = linear(torch.cat(heads, -1), f"{attention}.output")
        x = norm(x + mixed, f"{at}.attention.norm")
        inner = F.gelu(linear(x, f"{at}.feed_forward.sublayer.0"))
        x = norm(x + linear(inner, f"{at}.feed_forward.sublayer.3"), f"{at}.feed_forward.norm")
    states = model(text)
    torch.testing.assert_close(states, x, rtol=0, atol=1e-11)
    mine, theirs = model.logits(states), x @ weights["embedding.tokens.weight"].T
    probe = torch.randn_like(mine)
    grads = [torch.autograd.grad((out * probe).sum(), model.parameters()) for out in (mine, theirs)]
    torch.testing.assert_close(*grads, rtol=0, atol=1e-9)


def test_what_linformer_shares() -> None:
    counts = {}
    for sharing in ("heads", "key_values", "layers"):
        model = small("linformer", sharing=sharing, rank=3, max_length=10)
        counts[sharing] = sum(p.numel() for p in model.parameters())
        real, padded = ids(4), torch.nn.functional.pad(ids(4), (0, 3))
        mask = (torch.arange(7) < 4).long().expand(2, 7)
        torch.testing.assert_close(model(padded, mask)[:, :4], model(real), rtol=0, atol=1e-12)
    assert counts["heads"] - counts["key_values"] == 2 * 30
    assert counts["key_values"] - counts["layers"] == 30


def test_linformer_of_full_rank_is_attention() -> None:
    torch.manual_seed(0)
    layer = LinformerAttention(8, 2, 6, 6).double()
    layer.of_keys.data = layer.of_values.data = torch.eye(6, dtype=torch.float64)
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    query, key, value = layer.qkv(x).view(2, 6, 3, 2, 4).unbind(-3)
    heads = ew.attend(query, key, value, graphs.complete())
    torch.testing.assert_close(layer(x, graphs.complete()), layer.output(heads.flatten(-2)))


def test_performer_is_its_formula() -> None:
    r"""φ(x) = exp(W x' - |x'|² / 2) / √m with x' = x / D^¼, and no factor taken out."""
    torch.manual_seed(0)
    x = torch.randn(2, 150, 8, dtype=torch.float64)
    for causal in (False, True):
        layer = PerformerAttention(8, 2, 5, causal=causal).double()
        query, key, value = layer.qkv(x).view(2, 150, 3, 2, 4).unbind(-3)

        def features(x: Tensor, weight: Tensor = layer.projection) -> Tensor:
            x = x / 4**0.25
            return (x @ weight.T - x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(5)

        pairs = torch.einsum("bihm,bjhm->bhij", features(query), features(key))
        pairs = pairs.tril() if causal else pairs
        weights = pairs / pairs.sum(-1, keepdim=True)
        heads = torch.einsum("bhij,bjhd->bihd", weights, value)
        out = layer(x)
        torch.testing.assert_close(out, layer.output(heads.flatten(-2)), rtol=0, atol=1e-12)


def test_the_mean_over_features_is_the_softmax_kernel() -> None:
    torch.manual_seed(0)
    query, key = (0.3 * torch.randn(6, 4, dtype=torch.float64) for _ in range(2))
    weight = orthogonal_features(200_000, 4).double()
    maps = [(x @ weight.T - x.square().sum(-1, keepdim=True) / 2).exp() for x in (query, key)]
    mean = maps[0] @ maps[1].T / len(weight)
    torch.testing.assert_close(mean, (query @ key.T).exp(), rtol=0.03, atol=0.03)


@pytest.mark.parametrize("count", [3, 8, 20])
def test_features_are_orthogonal_in_blocks_and_as_long_as_gaussian_ones(count: int) -> None:
    torch.manual_seed(0)
    weight = orthogonal_features(count, 8).double()
    assert weight.shape == (count, 8)
    for block in weight.split(8):
        products = block @ block.T
        torch.testing.assert_close(products - products.diag().diag(), torch.zeros_like(products),
                                   rtol=0, atol=1e-5)  # fmt: skip
    lengths = orthogonal_features(20_000, 8).square().sum(-1)
    assert float(lengths.mean()) == pytest.approx(8, rel=0.03)
    assert float(lengths.var()) == pytest.approx(16, rel=0.1)  # of χ² with 8 degrees of freedom


def test_orthogonal_features_are_nearer_than_independent_ones() -> None:
    torch.manual_seed(0)
    query, key = (0.15 * torch.randn(64, 16, dtype=torch.float64) for _ in range(2))
    exact = (query @ key.T).exp()

    def error(weight: Tensor) -> float:
        maps = [(x @ weight.T - x.square().sum(-1, keepdim=True) / 2).exp() for x in (query, key)]
        return float((maps[0] @ maps[1].T / len(weight) - exact).square().mean())

    orthogonal = [error(orthogonal_features(16, 16).double()) for _ in range(200)]
    independent = [error(torch.randn(16, 16).double()) for _ in range(200)]
    assert sum(orthogonal) < 0.95 * sum(independent)


@pytest.mark.parametrize("count", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_sums_up_to_each_token_are_those_of_a_loop(count: int) -> None:
    torch.manual_seed(0)
    query, key = (torch.rand(2, count, 3, 5, dtype=torch.float64) for _ in range(2))
    value = torch.randn(2, count, 3, 4, dtype=torch.float64)
    most = torch.randn(2, count, 3, dtype=torch.float64)
    out, _ = prefix_attention(query, key, most, value)
    for i in {0, count // 2, count - 1}:
        past = slice(i + 1)
        alone = linear_attention(query[:, i : i + 1], key[:, past], most[:, past], value[:, past])
        torch.testing.assert_close(out[:, i : i + 1], alone, rtol=0, atol=1e-12)


def test_a_one_way_performer_reads_nothing_from_the_future() -> None:
    model = small("performer", causal=True, features=6)
    text = ids(150)
    later = text.clone()
    later[:, 70:] = 2 + (later[:, 70:] - 1) % (VOCABULARY - 2)
    before, after = model(text), model(later)
    torch.testing.assert_close(before[:, :70], after[:, :70], rtol=0, atol=1e-9)
    assert not torch.allclose(before[:, 70], after[:, 70])
    mask = (torch.arange(150) < torch.tensor([[150], [90]])).long()
    packed = model(text[mask.bool()], sizes=[150, 90])
    torch.testing.assert_close(packed, model(text, mask)[mask.bool()], rtol=0, atol=1e-10)


def test_large_exponents_do_not_overflow() -> None:
    torch.manual_seed(0)
    layer = PerformerAttention(16, 2, 32)
    nn.init.normal_(layer.qkv.weight, std=8)
    out = layer(torch.randn(1, 40, 16))
    assert out.isfinite().all()
    out.sum().backward()
    assert layer.qkv.weight.grad.isfinite().all()


def test_features_are_redrawn_in_training_alone() -> None:
    model = small("performer", redraw_every=2, depth=1)
    (layer,) = [m for m in model.modules() if isinstance(m, PerformerAttention)]
    seen = [layer.projection]
    model.train()
    for _ in range(5):
        model(ids(4))
        seen.append(layer.projection)
    same = [one is other for one, other in itertools.pairwise(seen)]
    assert same == [True, True, False, True, False]
    model.eval()
    for _ in range(5):
        model(ids(4))
    assert layer.projection is seen[-1]
    other = small("performer", redraw_every=2, depth=1)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(ids(4)), model(ids(4)))
    never = small("performer", redraw_every=0, depth=1).train()
    (kept,) = [m for m in never.modules() if isinstance(m, PerformerAttention)]
    first = kept.projection
    for _ in range(3):
        never(ids(4))
    assert kept.projection is first


def test_one_text_without_a_batch() -> None:
    for name in ("linformer", "performer"):
        model = small(name)
        x = torch.randn(2, 5, 8, dtype=torch.float64)
        whole = model.backbone(x)
        torch.testing.assert_close(model.backbone(x[0]), whole[0], rtol=0, atol=1e-12)
        sequences = SequenceBatch.of_features(x.flatten(0, 1), sizes=[5, 5])
        torch.testing.assert_close(model.backbone(x.flatten(0, 1), sequences).view_as(x), whole)


def test_bad_input_is_refused() -> None:
    with refused("x", expected="at most 6 tokens", got="7 tokens", remedy="larger max_length"):
        small("linformer", max_length=6).backbone(torch.zeros(1, 7, 8).double())
    with refused("sharing", expected="heads", got="head", remedy="heads"):
        small("linformer", sharing="head")
    for name, option in (("linformer", "rank"), ("performer", "features")):
        with refused(option, expected="at least 1", got="0", remedy=f"set {option} to"):
            small(name, **{option: 0})
    with refused("cache", expected="as a whole", got="Cache", remedy="gpt"):
        mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
        small("performer", causal=True)(ids(3), mask, cache=Cache())
    for name in ("linformer", "performer"):
        model = small(name)
        with refused("graph", expected="builds its own graph", got="Causal", remedy="gpt"):
            model(ids(4), graph=graphs.causal())
        with refused("cache", expected="as a whole", got="Cache", remedy="gpt"):
            model(ids(4), cache=Cache())
        with refused(
            "attention_mask", expected="only before or after", got="between", remedy="the end"
        ):
            model(ids(3), torch.tensor([[1, 0, 1], [1, 1, 1]]))
        with refused("heads", expected="divisor", got="3", remedy="heads"):
            small(name, heads=3)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_linformer_reads_under_autocast(count: int) -> None:
    model = small("linformer", rank=4, max_length=16).float()
    with torch.autocast("cpu", torch.bfloat16):
        states = model(ids(count))
    torch.testing.assert_close(states, model(ids(count)), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("at", [1, CHUNK - 1, CHUNK + 9])
def test_a_key_of_extreme_size_leaves_what_is_before_it(at: int) -> None:
    """Not e^87 times as large only: float32 has no number for what the others are beside it."""
    torch.manual_seed(0)
    query, key = torch.rand(2, 1, 2 * CHUNK, 1, 8).add(0.1).unbind(0)
    value, most = torch.randn(1, 2 * CHUNK, 1, 4), torch.randn(1, 2 * CHUNK, 1)
    most[:, at] = 400.0
    given = query, key, most, value
    leaves = [x.clone().requires_grad_() for x in (query, key, value)]
    out, _ = prefix_attention(leaves[0], leaves[1], most, leaves[2])
    past = [x[:, :at].double() for x in given]
    torch.testing.assert_close(
        out[:, :at].double(), prefix_attention(*past)[0], rtol=1e-4, atol=1e-4
    )
    whole, _ = prefix_attention(*(x.double() for x in given))
    torch.testing.assert_close(out.double(), whole, rtol=1e-4, atol=1e-4)
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.square().sum(), leaves))


def test_a_text_read_by_parts_is_the_text_read_at_once() -> None:
    model = small("performer", causal=True, features=6)
    text, cache = ids(2 * CHUNK + 9), Cache()
    parts = [model(part, cache=cache) for part in text.split([1, CHUNK, 5, CHUNK + 3], 1)]
    torch.testing.assert_close(torch.cat(parts, 1), model(text), rtol=0, atol=1e-9)
    (kept, *_) = [cache.state(m) for m in model.modules() if isinstance(m, PerformerAttention)]
    assert [x.shape for x in kept] == [(2, 2, 6, 5), (2, 2)]  # whatever the length
    cache.select(torch.tensor([1]))
    again = model(text[1:, :3], cache=cache)
    assert again.shape == (1, 3, 8)


@pytest.mark.parametrize("causal", [False, True])
def test_performer_in_training_gives_shapes_on_meta(causal: bool) -> None:
    with torch.device("meta"):
        model = models.performer(VOCABULARY, width=8, heads=2, features=4, causal=causal)
    states = model.train()(ids(5).to("meta"))
    assert states.shape == (2, 5, 8)
