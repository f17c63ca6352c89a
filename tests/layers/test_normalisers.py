"""Layers whose weights are not softmax's."""

from __future__ import annotations

import pytest
import torch

import edgewise as ew
from edgewise import graphs, models
from edgewise.layers import LAYER_NORMALISERS, LearnedEntmax, MultiHeadAttention
from tests.errors import refused


@pytest.mark.parametrize("name", LAYER_NORMALISERS)
def test_a_layer_attends_by_its_normaliser(name: str) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, normaliser=name).double()
    x = 3 * torch.randn(6, 8, dtype=torch.float64)
    graph = graphs.window(2).bind(6)
    query, key, value = layer.qkv(x).view(6, 3, 2, 4).unbind(-3)
    given = ew.Entmax(1.5) if name == "learned" else name
    heads = ew.attend(query, key, value, graph, normaliser=given)
    torch.testing.assert_close(layer(x, graph), layer.output(heads.flatten(-2)))
    weights = layer.weights(x, graph)
    torch.testing.assert_close(weights, ew.attention_weights(query, key, graph, normaliser=given))
    assert (weights == 0).any() == (name != "softmax")


def test_alpha_is_learned_between_softmax_and_sparsemax() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, normaliser="learned").double()
    assert isinstance(layer.normaliser, LearnedEntmax)
    assert layer.normaliser.alpha.tolist() == [1.5, 1.5]
    x = 3 * torch.randn(6, 8, dtype=torch.float64)
    layer(x, graphs.complete()).square().sum().backward()
    assert layer.normaliser.weight.grad.abs().min() > 0
    layer.normaliser.weight.data = torch.tensor([-30.0, 30.0], dtype=torch.float64)
    weights = layer.weights(x, graphs.complete())
    for head, name in enumerate(("softmax", "sparsemax")):
        alone = MultiHeadAttention(8, 2, normaliser=name).double()
        alone.load_state_dict(layer.state_dict(), strict=False)
        wanted = alone.weights(x, graphs.complete())
        torch.testing.assert_close(weights[..., head], wanted[..., head], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["gpt", "bert", "roberta", "transformer"])
def test_models_take_a_normaliser_and_refuse_what_is_none(name: str) -> None:
    sizes = {"width": 8, "depth": 1, "heads": 2, "ffn_dim": 8}
    model = models.MODELS[name](11, normaliser="learned", **sizes).eval()
    found = [m for m in model.modules() if isinstance(m, LearnedEntmax)]
    assert len(found) == (3 if name == "transformer" else 1)
    ids = torch.randint(2, 11, (2, 5))
    out = model(ids, None, ids) if name == "transformer" else model(ids)
    assert out.isfinite().all()
    with refused("normaliser", expected="learned", got="tanh", remedy=""):
        models.MODELS[name](11, normaliser="tanh", **sizes)
