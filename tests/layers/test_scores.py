"""Scores with weights: each is its formula, in any Transformer, on any graph and engine."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import graphs
from edgewise.layers import SCORES, LearnedScore, MultiHeadAttention, learned_score
from edgewise.models import MODELS
from tests.errors import refused

H, D, N = 2, 4, 6


def made(name: str) -> LearnedScore:
    torch.manual_seed(0)
    score = learned_score(name, H, D).double()
    for parameter in score.parameters():
        nn.init.normal_(parameter)
    return score


def by_the_formula(name: str, score: LearnedScore, q: Tensor, k: Tensor) -> Tensor:
    """The score of vectors q and k in head 0, as the lectures write it."""
    if name == "dot":
        return q @ k / D**0.5
    if name == "bilinear":
        return q @ score.weight[0] @ k / D**0.5
    if name == "tanh":
        first = torch.cat([score.query[0].T, score.key[0].T], dim=1)  # W1, for [q; k]
        return score.weight[0] @ (first @ torch.cat([q, k]) + score.bias[0]).tanh()
    a = torch.cat([score.query[0], score.key[0]])
    return nn.functional.leaky_relu(a @ torch.cat([q, k]), 0.2)


@pytest.mark.parametrize("name", SCORES)
def test_a_score_is_its_formula(name: str) -> None:
    score = made(name)
    query, key = torch.randn(2, N, H, D, dtype=torch.double)
    graph = (graphs.window(1) | graphs.hubs([0])).bind(N)
    query_, key_, compare = score(query, key)
    edges = ew.edge_scores(query_, key_, graph, score=compare)[:, 0]
    pairs = zip(graph.target.tolist(), graph.source.tolist(), strict=True)
    expected = [by_the_formula(name, score, query[i, 0], key[j, 0]) for i, j in pairs]
    torch.testing.assert_close(edges, torch.stack(expected))


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("engine", ["dense", "reference"])
def test_every_weight_learns_on_every_engine(name: str, engine: str) -> None:
    layer = MultiHeadAttention(H * D, H, score=made(name)).double()
    x = torch.randn(3, N, H * D, dtype=torch.double, requires_grad=True)
    with ew.using_engine(engine):
        layer(x, graphs.window(2)).square().sum().backward()
    for weight, parameter in layer.named_parameters():
        assert parameter.grad.isfinite().all(), weight
        assert parameter.grad.abs().max() > 0, weight


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("model", ["transformer_encoder", "bert", "gpt", "transformer"])
def test_a_transformer_takes_any_score_by_name(name: str, model: str) -> None:
    torch.manual_seed(0)
    made = MODELS[model](8, score=name, heads=2, depth=2)
    scores = [m.score for m in made.modules() if isinstance(m, MultiHeadAttention)]
    assert len(scores) == (6 if model == "transformer" else 2), "one for every attention"
    kind = ew.Dot if name == "dot" else SCORES[name]  # which has no weights
    assert all(isinstance(score, kind) for score in scores)


def test_an_unknown_score_suggests_the_nearest() -> None:
    with refused("score", expected="bilinear", got="'biliner'", remedy="did you mean 'bilinear'"):
        learned_score("biliner", H, D)
