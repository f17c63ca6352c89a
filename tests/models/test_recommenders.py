"""LightGCN and PinSage against their formulas."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch
from torch.nn.functional import normalize

from edgewise import graphs
from edgewise.models import lightgcn, pinsage
from edgewise.models.lightgcn import FLOOR, low_pass_filter
from edgewise.models.pinsage import walk_neighbours

USERS, ITEMS = 3, 4


def chosen() -> graphs.Graph:
    pairs = torch.tensor([[0, 0, 1, 1, 1, 2], [3, 4, 3, 4, 5, 5]])
    return graphs.edges(torch.cat([pairs, pairs.flip(0)], dim=1), USERS + ITEMS)


def test_lightgcn_by_matrices():
    model = lightgcn(USERS, ITEMS, width=5, hops=2, cosine=False).double()
    matrix = chosen().dense().double()
    scale = matrix.sum(1).clamp(min=1).rsqrt()
    matrix = scale[:, None] * matrix * scale
    e = model.embedding.weight
    z = (e + matrix @ e + matrix @ matrix @ e) / 3
    torch.testing.assert_close(model.embed(chosen()), z, rtol=0, atol=1e-14)
    users, items = torch.tensor([2, 0]), torch.tensor([3, 1, 0])
    expected = z[users] @ z[items + USERS].T
    torch.testing.assert_close(model(users, items, chosen()), expected, rtol=0, atol=1e-14)


def test_low_pass_filter_is_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    users = torch.tensor([2, 0])
    r = chosen().dense()[:USERS, USERS:].double()
    user, item = r.sum(1, keepdim=True), r.sum(0).clamp(min=1)
    scaled = r * user.rsqrt() * item.rsqrt()
    for count in (1, 2):
        monkeypatch.setattr(import_module("edgewise.models.lightgcn"), "VECTORS", count)
        v = torch.linalg.svd(scaled).Vh[:count].T
        p = scaled.T @ scaled
        sharp = (p + 0.2 * v @ v.T) @ (torch.eye(ITEMS) - 0.5 * p)
        expected = (r * item**-0.35 @ sharp * item**0.35)[users]
        found = low_pass_filter(users, chosen(), USERS)
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)  # float32


def test_low_pass_is_added_outside_of_training():
    model, users = lightgcn(USERS, ITEMS, width=5, low_pass=0.4), torch.tensor([2, 0])
    items = torch.tensor([3, 1, 0])
    plain = model(users, items, chosen())
    model.low_pass = 0.0
    torch.testing.assert_close(plain, model(users, items, chosen()))
    model.low_pass = 0.4
    found = low_pass_filter(users, chosen(), USERS)[:, items].clamp(min=0)
    expected = plain + 0.4 * (found + FLOOR).log()
    torch.testing.assert_close(model.eval()(users, items, chosen()), expected)


def test_positives_come_first():
    for model in (lightgcn(USERS, ITEMS, width=5), pinsage(USERS, ITEMS, width=5)):
        users, items = torch.tensor([2, 0]), torch.tensor([3, 1, 3])
        positives = torch.tensor([[1, 0, 2], [3, -1, -1]])
        out = model(users, items, chosen(), positives=positives)
        every = model(users, torch.arange(ITEMS), chosen())
        expected = every.gather(1, positives.clamp(min=0)).where(positives >= 0, -torch.inf)
        torch.testing.assert_close(out[:, :3], expected)
        negatives = every[:, items]
        negatives[0, 1] = negatives[1, 0] = negatives[1, 2] = -torch.inf  # items of the user
        torch.testing.assert_close(out[:, 3:], negatives)


def test_cosines_are_between_embeddings_of_length_one():
    for model in (lightgcn(USERS, ITEMS, width=5), pinsage(USERS, ITEMS, width=5)):
        torch.testing.assert_close(model.embed(chosen()).norm(dim=1), torch.ones(USERS + ITEMS))


def test_pinsage_begins_as_importance_pooling_and_a_map_changes_it():
    model = pinsage(USERS, ITEMS, width=5, top=4, steps=2)
    for bias in (model.layers[0].message.bias, model.layers[0].update.bias):
        torch.nn.init.zeros_(bias)
    near, weight = walk_neighbours(chosen(), walks=4, walk_length=2, top=4)
    matrix = torch.zeros(USERS + ITEMS, USERS + ITEMS)
    matrix[near.target, near.source] = weight
    e = model.embedding.weight
    expected = normalize(e + normalize(matrix @ e, dim=-1), dim=-1)
    torch.testing.assert_close(model.embed(chosen()), expected)
    torch.nn.init.normal_(model.layers[0].update.weight)
    assert not torch.allclose(model.embed(chosen()), expected)


def test_walks_are_made_once_a_graph(monkeypatch):
    model, graph = pinsage(USERS, ITEMS, width=5, depth=2), chosen()
    first = model.embed(graph)
    monkeypatch.setitem(walk_neighbours.__globals__, "walk_neighbours", None)
    assert torch.equal(model.embed(graph), first)
