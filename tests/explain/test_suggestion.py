"""Patterns that are suggested for a trained model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edgewise
from edgewise import explain, graphs, models
from edgewise.app.explain import Suggestion, suggest
from edgewise.app.explain.suggestion import LayerSuggestion, RestrictedAttention
from edgewise.app.kinds import find
from edgewise.app.runs import with_values
from edgewise.explain.losses import losses_of
from edgewise.layers import MultiHeadAttention
from tests.errors import refused
from tests.explain import small_runs


class Looking(nn.Module):
    """Attention to the first node (weight 0.4) and to the two neighbours, whatever x is."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = MultiHeadAttention(4, 2)

    def forward(self, x: Tensor, graph: graphs.Graph) -> Tensor:
        source, target = graph.edge_index
        near = ((source - target).abs() <= 1).double()
        near = 0.6 * near / torch.zeros(len(x)).double().index_add(0, target, near)[target]
        weights = near + 0.4 * (source == 0)
        with torch.no_grad():
            self.layer.qkv.weight[:8].zero_()  # scores of 0
            self.layer.qkv.bias[:8].zero_()
        bias = weights.clamp(min=1e-30).log()[:, None].expand(-1, 2).float()
        return self.layer(x, graph, bias=bias)


def loss(model: nn.Module, batch: Any) -> Tensor:
    return model(*batch).square().mean()


@pytest.mark.parametrize("graph", [graphs.complete(), graphs.window(7)])
def test_a_known_pattern_is_found(graph: graphs.Pattern) -> None:
    torch.manual_seed(0)
    model = Looking()
    batches = [(torch.randn(n, 4), graph.bind(n) | graphs.hubs([0]).bind(n)) for n in (12, 9)]
    found = suggest(model, batches, loss, coverage=0.99)
    (name,) = found.layers
    assert name == "layer"
    assert found.layers[name].text == "window(1) | hubs([0])"
    assert found.layers[name].weight == pytest.approx(1)
    assert found.loss == pytest.approx(found.full_loss, rel=1e-4)
    assert found.seconds > 0
    assert graphs.parse(found.layers[name].text).bind(9).num_edges > 0
    assert "window(1) | hubs([0])" in str(found)
    assert "full attention" in str(found)
    assert str(found).splitlines()[1].startswith("0: layer ")  # numbered as in all commands
    small = suggest(model, batches, loss, coverage=0.5)
    assert small.layers[name].text == "window(0) | hubs([0])"
    assert small.loss != pytest.approx(small.full_loss, rel=1e-4)
    assert small.layers[name].edges < found.layers[name].edges


@pytest.mark.parametrize("sizes", [(7,), (7, 4)])
@pytest.mark.parametrize("base", [graphs.complete(), graphs.causal(), graphs.window(3)])
def test_restricted_layers_attend_to_the_pattern(
    sizes: tuple[int, ...], base: graphs.Pattern
) -> None:
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(8, 2), torch.randn(sum(sizes), 8)
    pattern = graphs.window(1) | graphs.hubs([0, -1])
    graph = graphs.batch([base.bind(n) for n in sizes])
    both = graphs.batch([(base & pattern).bind(n) for n in sizes])
    with RestrictedAttention({"MultiHeadAttention": pattern}).watching(layer):
        found = layer(x, graph)
    torch.testing.assert_close(found, layer(x, both))
    assert not torch.equal(found, layer(x, graph))


def test_terms_of_edges_keep_their_edges() -> None:
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(8, 2), torch.randn(6, 8)
    graph = graphs.window(3).bind(6)
    pattern = graphs.window(1)
    small = graph & pattern
    small = small.bind(6)
    terms = {
        "bias": torch.randn(graph.num_edges, 2),
        "edge_value": torch.randn(graph.num_edges, 2, 4),
    }
    order = {pair: e for e, pair in enumerate(zip(*graph.edge_index.tolist(), strict=True))}
    kept = [order[pair] for pair in zip(*small.edge_index.tolist(), strict=True)]
    with RestrictedAttention({"MultiHeadAttention": pattern}).watching(layer):
        found = layer(x, graph, **terms)
    expected = layer(x, small, **{name: term[kept] for name, term in terms.items()})
    torch.testing.assert_close(found, expected)


@pytest.mark.slow
def test_a_run_gets_a_suggestion(tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("lightning")
    pytest.importorskip("tokenizers")
    run = edgewise.load(small_runs.sentences(tmp_path_factory.mktemp("runs") / "sentences"))
    found = suggest(run, max_batches=1, coverage=0.6)
    assert list(found.layers) == list(explain.layers_with_heads(run.model))
    assert all(one.weight >= 0.6 for one in found.layers.values())


def test_batches_of_a_run_are_spread_over_the_split(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Batches of translations are sorted by length, so the first ones are the longest."""
    pytest.importorskip("lightning")
    pytest.importorskip("tokenizers")
    path = small_runs.translations(tmp_path_factory.mktemp("runs") / "translations")
    run = edgewise.load(path)
    run = replace(run, recipe=with_values(run.recipe, {"data.batch_size": 1}))
    every = [len(batch.target) for batch in losses_of(run).batches]
    assert len(every) == 8
    assert every == sorted(every, reverse=True)
    for count, places in ((1, [4]), (3, [1, 4, 6]), (4, [1, 3, 5, 7]), (99, range(8))):
        chosen = losses_of(run, max_batches=count).batches
        assert [len(batch.target) for batch in chosen] == [every[place] for place in places]


def test_short_texts_have_no_hubs_of_equal_weight() -> None:
    """Each of 3 nodes has a third of equal weights; a fourth node cannot be a hub."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(4, 2)
    with torch.no_grad():
        assert layer.qkv is not None
        layer.qkv.weight[:8].zero_()
        layer.qkv.bias[:8].zero_()
    graph = graphs.batch([graphs.complete().bind(n) for n in (3, 6, 3)])
    batches = [(torch.randn(12, 4), graph)]
    found = suggest(layer, batches, loss)
    assert [one.text for one in found.layers.values()] == ["window(3)"]


def test_cross_attention_gets_no_suggestion() -> None:
    """A batch with as many targets as sources looks like self-attention."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(4, 2, source_width=4)
    inner = MultiHeadAttention(4, 2)
    model = nn.ModuleDict({"cross": layer, "own": inner})

    def both(model: Any, batch: Any) -> Tensor:
        x, y = batch
        x = model["own"](x, graphs.complete())
        return model["cross"](x, graphs.complete(), y).square().mean()

    for sizes in ((5, 7), (5,)):
        batches = [(torch.randn(5, 4), torch.randn(n, 4)) for n in sizes]
        assert list(suggest(model, batches, both).layers) == ["own"]


def test_a_suggestion_keeps_the_direction_of_time() -> None:
    """A window in the place of a causal graph would let tokens attend to the future."""

    def of(**widths: int) -> Suggestion:
        layers = {
            name.replace("__", "."): LayerSuggestion(graphs.window(width), 0.9, 0.1 * width)
            for name, width in widths.items()
        }
        return Suggestion(layers, 1.0, 1.0, 1.0, 1.0)

    found = of(trunk__0=3, trunk__1=5)
    assert found.fields(find("sst2")) == {"model.graph": "window(5)"}
    assert found.fields(find("gpt-shakespeare")) == {"model.graph": "causal() & window(5)"}
    assert found.fields(find("gat-cora")) == {}
    found = of(encoder__0=3, decoder__0__attention=5, decoder__1__attention=4)
    assert found.fields(find("transformer-multi30k")) == {
        "model.graph": "window(3)",
        "model.decoder_graph": "causal() & window(5)",
    }
    assert found.fields(find("caption-digits")) == {"model.graph": "window(3)"}


def test_bad_requests_are_named() -> None:
    model = models.gat(4, 2).eval()
    graph = graphs.complete().bind(3, 5)
    layer = MultiHeadAttention(4, 2, source_width=4)
    batches = [(torch.randn(3, 4), graph, torch.randn(5, 4))]
    with refused(
        "model", expected="self-attention", got="has no self-attention", remedy="Transformer"
    ):
        suggest(layer, batches, loss)
    with refused("coverage", expected="1", got="2", remedy="0.9"):
        suggest(model, [], loss, coverage=2)
