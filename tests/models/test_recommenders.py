"""LightGCN and PinSage against their formulas."""

from __future__ import annotations

import torch
from torch.nn.functional import normalize

from edgewise import graphs
from edgewise.models import lightgcn, pinsage
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


def test_walks_are_made_once_a_graph():
    model, graph = pinsage(USERS, ITEMS, width=5, depth=2), chosen()
    first = model.embed(graph)
    assert torch.equal(model.embed(graph), first)
    assert len([key for key in graph._cache if key[0] == "walks"]) == 1
