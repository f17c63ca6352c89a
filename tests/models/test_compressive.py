"""The Compressive Transformer: memories in their order, the older as means of a few."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise import models
from edgewise.layers import Cache, TextModel
from edgewise.models.compressive import Compressed
from tests.errors import refused

VOCABULARY, WIDTH = 11, 8


def small(name: str = "compressive", **options: object) -> TextModel:
    torch.manual_seed(0)
    numbers: dict[str, object] = {"width": WIDTH, "depth": 2, "heads": 2, "ffn_dim": 12}
    model = models.MODELS[name](VOCABULARY, **{**numbers, **options}).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return model


def ids(count: int) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (2, count))


@pytest.mark.parametrize("split", [(20,), (1,) * 20, (7, 6, 7), (3, 0, 17)])
def test_what_is_kept_of_nodes_does_not_depend_on_the_segments(split: tuple[int, ...]) -> None:
    nodes, layer, cache = torch.randn(2, 20, 3), nn.Identity(), Cache()
    memory, past = Compressed(length=4, compressed=3, rate=3), 0
    for part in nodes.split(split, dim=1):
        source = memory.prepend(layer, part, cache)
        assert source.shape[1] == memory.num_memories(past) + part.shape[1]
        memory.update(layer, source, cache)
        past += part.shape[1]
    means, recent = cache.state(layer)
    assert torch.equal(recent, nodes[:, 15:]), "20 nodes: 5 means of 3, and 5 of which 4 must be"
    by_hand = torch.stack([nodes[:, first : first + 3].mean(1) for first in (6, 9, 12)], 1)
    torch.testing.assert_close(means, by_hand)
    assert memory.num_memories(20) == 3 + 5


def relative_attention(
    w: dict[str, Tensor], u: Tensor, v: Tensor, h: Tensor, source: Tensor
) -> Tensor:
    """Equation of Dai et al., with the distance of every pair: (q + u)·k + (q + v)·W R."""
    batch, count, width = h.shape
    total, size = source.shape[1], width // 2

    def split(x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], 2, size)

    q, k, val = (
        split(x @ w[f"{name}.weight"].T)
        for x, name in ((h, "query"), (source, "key"), (source, "value"))
    )
    distance = torch.arange(total - count, total)[:, None] - torch.arange(total)
    rate = 10000.0 ** (-torch.arange(0, width, 2).double() / width)
    wave = distance[..., None].double() * rate
    encoding = torch.stack([wave.sin(), wave.cos()], -1).flatten(-2)
    r = split(encoding @ w["distance.weight"].T)  # [count, total, heads, size]
    scores = torch.einsum("bihd,bjhd->bhij", q + u, k)
    scores = scores + torch.einsum("bihd,ijhd->bhij", q + v, r)
    scores = (scores / math.sqrt(size)).masked_fill(distance < 0, -torch.inf)
    out = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), val)
    return out.reshape(batch, count, width) @ w["output.weight"].T


def by_algorithm_1(
    model: TextModel, segments: list[Tensor], memory: int, compressed: int, rate: int
) -> list[Tensor]:
    """States of each segment by algorithm 1 of Rae et al., with mean pooling as f_c."""
    weights = dict(model.named_parameters())
    of_layer = [
        {n.removeprefix(f"backbone.stack.layers.{i}."): w for n, w in weights.items()}
        for i in range(len(model.backbone.stack.layers))
    ]
    u, v = (weights[f"backbone.preferences.{name}"] for name in ("content", "distance"))
    m = [torch.zeros(2, 0, WIDTH).double() for _ in of_layer]
    cm = [torch.zeros(2, 0, WIDTH).double() for _ in of_layer]
    outputs = []
    for x in segments:
        h = F.embedding(x, weights["embedding.tokens.weight"])  # line 2
        for i, w in enumerate(of_layer):
            attention = {
                n.removeprefix("attention.sublayer."): p
                for n, p in w.items()
                if n.startswith("attention.sublayer.")
            }
            source = torch.cat([cm[i], m[i], h], 1)  # line 4
            a = relative_attention(attention, u, v, h, source)  # line 5
            a = F.layer_norm(a + h, (WIDTH,), w["attention.norm.weight"], w["attention.norm.bias"])
            kept = torch.cat([m[i], h.detach()], 1)
            old, m[i] = kept.tensor_split([max(kept.shape[1] - memory, 0)], 1)  # lines 7 and 9
            new = [old[:, j : j + rate].mean(1) for j in range(0, old.shape[1], rate)]  # line 8
            cm[i] = torch.cat([cm[i], *[mean[:, None] for mean in new]], 1)[:, -compressed:]
            f = "feed_forward.sublayer"
            inner = F.relu(a @ w[f"{f}.0.weight"].T + w[f"{f}.0.bias"])
            out = inner @ w[f"{f}.3.weight"].T + w[f"{f}.3.bias"]
            norm = w["feed_forward.norm.weight"], w["feed_forward.norm.bias"]
            h = F.layer_norm(out + a, (WIDTH,), *norm)  # line 11
        outputs.append(h)
    return outputs


@pytest.mark.parametrize(("memory", "compressed"), [(4, 6), (4, 3), (8, 2)])
def test_the_whole_model_is_algorithm_1_of_the_paper_with_every_gradient(
    memory: int, compressed: int
) -> None:
    """Segments of 4 tokens; in the paper, too, a segment replaces as many memories."""
    model, cache = small(memory=memory, compressed=compressed, rate=2), Cache()
    segments = list(ids(24).split(4, dim=1))
    mine = [model(part, cache=cache) for part in segments]
    theirs = by_algorithm_1(model, segments, memory, compressed, 2)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)
    parameters = list(model.parameters())
    probe = torch.randn_like(mine[-1])
    grads = [
        torch.autograd.grad((states[-1] * probe).sum(), parameters) for states in (mine, theirs)
    ]
    torch.testing.assert_close(*grads, rtol=0, atol=1e-9)
    tied = theirs[-1] @ model.embedding.tokens.weight.T
    torch.testing.assert_close(model.logits(mine[-1]), tied, rtol=0, atol=1e-10)


def test_means_of_one_are_a_longer_memory() -> None:
    text, outs = ids(18), []
    for name, options in (
        ("compressive", {"memory": 2, "compressed": 5, "rate": 1}),
        ("transformer_xl", {"memory": 7}),
    ):
        model, cache = small(name, **options), Cache()
        outs.append(torch.cat([model(part, cache=cache) for part in text.split(3, dim=1)], 1))
    torch.testing.assert_close(*outs, rtol=0, atol=1e-12)


def test_means_reach_farther_than_the_memory() -> None:
    text = ids(8)
    other = text.clone()
    other[:, 0] = 2 + (text[:, 0] - 1) % (VOCABULARY - 2)
    for compressed, reached in ((0, False), (3, True)):
        model, last = small(memory=2, compressed=compressed, rate=2, depth=1), []
        for one in (text, other):
            cache = Cache()
            last.append([model(part, cache=cache) for part in one.split(2, dim=1)][-1])
        assert torch.allclose(*last) is not reached


def test_padding_is_not_compressed() -> None:
    model, cache, text = small(memory=2, rate=2), Cache(), ids(6)
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[0, 0] = 0
    model(text, mask[:, :6], cache=cache)
    with refused("attention_mask", expected="no padding", got="padding", remedy="transformer_xl"):
        model(text[:, :2], mask, cache=cache)
