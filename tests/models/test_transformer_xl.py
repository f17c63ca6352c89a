"""Transformer-XL: its scores are the paper's, and its memory is the segment before."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs, models
from edgewise.layers import Cache, TextModel
from edgewise.models.transformer_xl import GlobalRelativeBias, RelativeAttention
from tests.errors import refused

VOCABULARY, WIDTH, HEADS = 11, 8, 2


def small(**options: object) -> TextModel:
    torch.manual_seed(0)
    numbers: dict[str, object] = {"width": WIDTH, "depth": 3, "heads": HEADS, "ffn_dim": 12}
    model = models.transformer_xl(VOCABULARY, **{**numbers, **options}).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return model


def ids(count: int, batch: int = 2) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (batch, count))


def wave(distance: int) -> Tensor:
    """R of a distance, by hand."""
    rates = [10000 ** (-2 * i / WIDTH) for i in range(WIDTH // 2)]
    pairs = [[math.sin(distance * rate), math.cos(distance * rate)] for rate in rates]
    return torch.tensor(pairs, dtype=torch.double).flatten()


def by_formula(
    layer: RelativeAttention, own: GlobalRelativeBias, x: Tensor, source: Tensor
) -> Tensor:
    """Of x ``[T, width]`` after what is remembered, ``source [M + T, width]``: the paper's sum."""
    size, ahead, out = WIDTH // HEADS, len(source) - len(x), []
    for i in range(len(x)):
        heads = []
        for h in range(HEADS):
            rows = slice(h * size, (h + 1) * size)
            q = layer.query.weight[rows] @ x[i]
            scores = []
            for j in range(ahead + i + 1):
                k = layer.key.weight[rows] @ source[j]
                r = layer.distance.weight[rows] @ wave(ahead + i - j)
                u, v = own.content[h], own.distance[h]
                scores.append((q @ k + q @ r + u @ k + v @ r) / math.sqrt(size))
            values = source[: ahead + i + 1] @ layer.value.weight[rows].T
            heads.append(torch.stack(scores).softmax(0) @ values)
        out.append(layer.output.weight @ torch.cat(heads))
    return torch.stack(out)


@pytest.mark.parametrize("remembered", [0, 4])
def test_scores_are_the_papers_with_every_gradient(remembered: int) -> None:
    torch.manual_seed(0)
    layer = RelativeAttention(WIDTH, HEADS).double()
    own = GlobalRelativeBias(HEADS, WIDTH).double()
    for parameter in own.parameters():
        nn.init.normal_(parameter)
    source = torch.randn(remembered + 5, WIDTH, dtype=torch.double, requires_grad=True)
    x = source[remembered:]
    graph = graphs.causal().bind(5, remembered + 5)
    cache, memory = Cache(), models.transformer_xl(3, memory=remembered).backbone.memory
    cache.keep_state(layer, (source[:remembered],))
    mine = layer(x, graph, preferences=own, memory=memory, cache=cache)
    theirs = by_formula(layer, own, x, source)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
    probe, leaves = torch.randn_like(mine), [source, *layer.parameters(), *own.parameters()]
    grads = [torch.autograd.grad((out * probe).sum(), leaves) for out in (mine, theirs)]
    torch.testing.assert_close(*grads, rtol=0, atol=1e-11)


def segments(size: int) -> graphs.Graph:
    """Of one long text: a token reads all of the segment before, and its own up to itself."""
    segment = torch.arange(3 * size) // size
    near = segment[:, None] - segment <= 1
    return graphs.from_dense(near & graphs.causal().bind(3 * size).dense())


@pytest.mark.parametrize("order", ["post", "pre"])
def test_memory_is_one_long_text_whose_segments_read_the_one_before(order: str) -> None:
    size, model = 4, small(memory=4, order=order)
    text, cache = ids(12), Cache()
    parts = [model(part, cache=cache) for part in text.split(size, dim=1)]
    whole = model(text, graph=segments(size))
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-12)
    apart = torch.cat([model(part) for part in text.split(size, dim=1)], 1)
    torch.testing.assert_close(parts[0], apart[:, :size])
    assert not torch.allclose(parts[1], apart[:, size : 2 * size])


def test_what_is_remembered_is_carried_farther_by_every_layer() -> None:
    for depth, reached in ((1, False), (2, True)):
        model, text = small(memory=2, depth=depth), ids(6, 1)
        other = text.clone()
        other[0, 1] = 2 + (text[0, 1] - 1) % (VOCABULARY - 2)
        last = []
        for one in (text, other):
            cache = Cache()
            last.append([model(part, cache=cache) for part in one.split(2, dim=1)][-1])
        assert torch.allclose(*last) is not reached


def test_memory_gets_no_gradient_and_does_not_grow() -> None:
    model, cache = small(memory=3), Cache()
    model(ids(5), cache=cache)
    model.zero_grad()
    text = torch.full((2, 2), 4)
    model(text, cache=cache).square().sum().backward()
    weight = model.embedding.tokens.weight.grad
    assert weight is not None
    assert weight[4].any()
    assert not weight[[2, 3, 5, 6, 7, 8, 9, 10]].any(), "what stands in the memory alone"
    for layer in model.backbone.stack.layers:
        (kept,) = cache.state(layer.attention.sublayer)
        assert kept.shape == (2, 3, WIDTH)
        assert not kept.requires_grad


def test_without_a_memory_segments_are_apart() -> None:
    model, text, cache = small(memory=0), ids(6), Cache()
    parts = [model(part, cache=cache) for part in text.split(3, dim=1)]
    for part, alone in zip(parts, text.split(3, dim=1), strict=True):
        torch.testing.assert_close(part, model(alone), rtol=0, atol=0)


def test_padding_in_front_is_not_remembered() -> None:
    model, text, cache = small(memory=3), ids(6, 1), Cache()
    padded = torch.cat([torch.full((1, 2), 1), text], 1)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1]])
    first = model(padded[:, :4], mask[:, :4], cache=cache)[:, 2:]
    second = model(padded[:, 4:], mask, cache=cache)
    alone = Cache()
    torch.testing.assert_close(first, model(text[:, :2], cache=alone), rtol=0, atol=1e-12)
    torch.testing.assert_close(second, model(text[:, 2:], cache=alone), rtol=0, atol=1e-12)


def test_what_cannot_be() -> None:
    with refused("width", expected="even", got="9", remedy="add 1"):
        models.transformer_xl(VOCABULARY, width=9, heads=3)
    with refused("heads", expected="divisor", got="3", remedy="width"):
        models.transformer_xl(VOCABULARY, width=8, heads=3)
    model = small()
    encoded = models.transformer(VOCABULARY, width=WIDTH, heads=HEADS).encode(ids(3))
    with refused("memory", expected="one text", got="Memory", remedy="transformer"):
        model(ids(3), memory=encoded)


@pytest.mark.parametrize("name", ["transformer_xl", "compressive"])
def test_segments_are_read_under_autocast(name: str) -> None:
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "depth": 2, "heads": HEADS, "ffn_dim": 12, "memory": 3}
    model = models.MODELS[name](VOCABULARY, **sizes, dropout=0.0)
    text, cache, exact = ids(12), Cache(), Cache()
    for segment in text.split(4, dim=1):
        with torch.autocast("cpu", torch.bfloat16):
            states = model(segment, cache=cache)
        torch.testing.assert_close(states, model(segment, cache=exact), rtol=0.05, atol=0.05)
    states.sum().backward()
