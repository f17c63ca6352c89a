"""Adaptive span: its formula, what its spans leave out, and how they are learned."""

from __future__ import annotations

import importlib
import math

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs, models
from edgewise.layers import Cache, Memory, SequenceBatch, TextModel, collect_penalties
from edgewise.models.adaptive_span import SpanAttention, radii_of
from tests.errors import refused

VOCABULARY = 11
model_file = importlib.import_module("edgewise.models.adaptive_span")


def small(**options: object) -> TextModel:
    torch.manual_seed(0)
    numbers: dict[str, object] = {"width": 12, "depth": 2, "heads": 3, "ffn_dim": 12}
    numbers |= {"span": 20, "ramp": 4, "dropout": 0.0}
    model = models.adaptive_span(VOCABULARY, **{**numbers, **options}).double().eval()
    for name, parameter in model.named_parameters():
        if not name.endswith("share"):
            nn.init.normal_(parameter, mean=0.1, std=0.4)
    return model


def with_spans(model: TextModel, *spans: float) -> list[SpanAttention]:
    found = [m for m in model.modules() if isinstance(m, SpanAttention)]
    for attention in found:
        attention.share.data = torch.tensor(spans, dtype=torch.float64) / attention.span
    return found


def ids(count: int, batch: int = 2) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (batch, count))


@pytest.mark.parametrize("count", [1, 5, 30, 50])
def test_a_layer_is_the_papers_formula(count: int) -> None:
    model = small()
    spans = (0.0, 2.5, 20.0)
    layer = with_spans(model, *spans)[0]
    x = torch.randn(2, count, 12, dtype=torch.float64)
    query, key, value = layer.qkv(x).view(2, count, 3, 3, 4).unbind(-3)
    query, key = layer.rotary(query), layer.rotary(key)
    scores = torch.einsum("bihd,bjhd->bhij", query, key) / math.sqrt(4)
    distance = torch.arange(count)[:, None] - torch.arange(count)
    weights = []
    for head, z in enumerate(spans):
        mask = ((4 + z - distance) / 4).clamp(0, 1) * (distance >= 0) * (distance <= 20)
        shares = mask * scores[:, head].exp()
        weights.append(shares / shares.sum(-1, keepdim=True))
    heads = torch.einsum("bhij,bjhd->bihd", torch.stack(weights, 1), value)
    own = layer(x, graphs.causal(), sequences=SequenceBatch.of_features(x))
    torch.testing.assert_close(own, layer.output(heads.flatten(-2)), rtol=0, atol=1e-12)


def test_gradients_of_spans_are_those_of_the_formula() -> None:
    model = small(depth=1)
    (layer,) = with_spans(model, 0.3, 2.5, 7.6)
    x = torch.randn(1, 25, 12, dtype=torch.float64)
    sequences = SequenceBatch.of_features(x)

    def run(share: Tensor) -> Tensor:
        with torch.no_grad():
            layer.share.copy_(share)
        return layer(x, graphs.causal(), sequences=sequences).square().sum()

    share = layer.share.detach().clone()
    run(share).backward()
    for head in range(3):
        step = torch.zeros(3, dtype=torch.float64)
        step[head] = 1e-6
        wanted = (run(share + step) - run(share - step)).item() / 2e-6
        assert layer.share.grad[head].item() == pytest.approx(wanted, rel=1e-5)


def test_beyond_the_span_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(span=200, depth=1)
    (layer,) = with_spans(model, 3.0, 10.0, 100.0)
    assert radii_of([layer]) == [[16, 16, 112]]
    pairs = []
    attend = model_file.attend

    def counted(query: Tensor, *rest: object, **options: object) -> Tensor:
        pairs.append((query.shape[-2], rest[2].num_edges))  # type: ignore[attr-defined]
        return attend(query, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(model_file, "attend", counted)
    text = ids(400, batch=1)
    short = model(text)
    radius = dict(pairs)
    of = {r: (graphs.causal() & graphs.window(r)).bind(400).num_edges for r in (16, 112)}
    assert radius == {2: of[16], 1: of[112]}
    pairs.clear()
    with_spans(model, 200.0, 200.0, 200.0)
    model(text)
    assert [heads for heads, _ in pairs] == [3]
    # What is left out had no weight: on all of the text the numbers are the same.
    with_spans(model, 3.0, 10.0, 100.0)
    monkeypatch.setattr(model_file, "STEP", 200)
    torch.testing.assert_close(model(text), short, rtol=0, atol=1e-12)


def test_spans_are_reported_penalised_and_kept_in_range() -> None:
    model = small(penalty=0.5, begin=5)
    assert model.backbone.spans.shape == (2, 3)
    torch.testing.assert_close(model.backbone.spans, torch.full((2, 3), 5.0).double())
    with_spans(model, 0.0, 3.0, 6.0)
    penalty = model.backbone.penalty()
    assert penalty.item() == pytest.approx(0.5 * 2 * 3.0)  # λ · layers · mean span
    penalty.backward()
    layers = [m for m in model.modules() if isinstance(m, SpanAttention)]
    wanted = torch.full((3,), 0.5 / 3 * 20).double()
    assert all(layer.share.grad.allclose(wanted) for layer in layers), "at 0, too"
    with_spans(model, -3.0, 3.0, 26.0)
    assert model.backbone.spans[0].tolist() == [0.0, 3.0, 20.0]
    with collect_penalties() as penalties:
        model.train()(ids(4))
        model.eval()(ids(4))
    assert [float(p.detach()) for p in penalties] == [pytest.approx(0.5 * 2 * 23 / 3)]
    assert layers[0].share.tolist() == pytest.approx([0.0, 0.15, 1.0])
    assert small(depth=0).backbone.spans.shape == (0, 0)


def test_spans_grow_where_what_counts_is_far() -> None:
    """A token is to be told what stood 12 before it: spans of 0 with a ramp of 4 cannot reach."""
    torch.manual_seed(0)
    model = models.adaptive_span(
        8, width=16, depth=1, heads=2, ffn_dim=16, span=32, ramp=16, penalty=0.0, dropout=0
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(60):
        text = torch.randint(8, (16, 40))
        logits = model.logits(model(text))[:, 12:]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, :-12].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert model.backbone.spans.max() > 6


def test_bad_input_is_refused() -> None:
    with refused("begin", expected="span, 20", got="21", remedy="larger span"):
        small(begin=21)
    with refused("penalty", expected="at least 0", got="-1", remedy="set penalty to"):
        small(penalty=-1.0)
    with refused("ramp", expected="at least 1", got="0", remedy="set ramp to"):
        small(ramp=0)
    with refused("heads", expected="divisor of the width 12", got="5", remedy="heads"):
        small(heads=5)
    with refused("memory", expected="one text", got="Memory", remedy="transformer"):
        small()(ids(4), memory=Memory(torch.zeros(2, 3, 12)))


@pytest.mark.parametrize("graph", [graphs.causal(), graphs.causal() & graphs.hubs([0])], ids=str)
def test_what_no_head_reaches_any_more_is_forgotten(graph: graphs.Pattern) -> None:
    model = small(graph=graph)
    layers = with_spans(model, 0.0, 2.5, 9.0)
    text, cache = ids(90), Cache()
    parts = [model(part, cache=cache) for part in text.split([40, *[1] * 30, 20], 1)]
    torch.testing.assert_close(torch.cat(parts, 1), model(text), rtol=0, atol=1e-9)
    kept = cache.state(layers[0])
    assert kept is not None
    reach = 16  # of 9 + 4 the next multiple of STEP
    assert (kept[0].shape[1] <= 2 * reach) is (graph == graphs.causal())


def test_padding_beyond_what_is_remembered() -> None:
    model = small()
    with_spans(model, 0.0, 2.5, 9.0)
    text, cache = ids(60), Cache()
    mask = torch.ones(2, 60).long()
    mask[1, :25] = 0
    parts = []
    for start in range(0, 60, 4):
        part = text[:, start : start + 4]
        parts.append(model(part, mask[:, : start + 4], cache=cache))
    real = mask.bool()
    torch.testing.assert_close(torch.cat(parts, 1)[real], model(text, mask)[real])
