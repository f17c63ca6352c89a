"""Neighbourhoods by importance: true visits, shares that agree with the exact ones, and limits."""

from __future__ import annotations

import pytest
import torch

from edgewise import graphs
from edgewise.models.pinsage import walk_neighbours
from tests.errors import refused


def chosen() -> graphs.Graph:
    """Users 0–2 and items 3–6; item 6 is nobody's."""
    pairs = torch.tensor([[0, 0, 1, 1, 1, 2], [3, 4, 3, 4, 5, 5]])
    return graphs.edges(torch.cat([pairs, pairs.flip(0)], dim=1), 7)


def exact(graph: graphs.Graph, length: int) -> torch.Tensor:
    """Expected visits ``[N, N]`` of a walk of this length, and the start's own left out."""
    step = graph.dense().double()
    step = step / step.sum(1, keepdim=True).clamp(min=1)
    visits = sum(torch.linalg.matrix_power(step, k) for k in range(1, length + 1))
    return visits - visits.diag().diag()


@pytest.mark.parametrize("length", [1, 2, 3])
def test_weights_are_shares_of_the_visits(length):
    graph = chosen()
    near, weight = walk_neighbours(graph, walks=20000, walk_length=length, top=7)
    found = torch.zeros(7, 7, dtype=torch.double)
    found[near.target, near.source] = weight.double()
    expected = exact(graph, length)
    expected = expected / expected.sum(1, keepdim=True).clamp(min=1e-9)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.015)
    assert torch.equal(found > 0, expected > 0)


def test_the_most_visited_are_kept_and_sum_to_one():
    graph = chosen()
    every, share = walk_neighbours(graph, walks=500, walk_length=3, top=7)
    near, weight = walk_neighbours(graph, walks=500, walk_length=3, top=2)
    assert near.in_degree().tolist() == [2, 2, 2, 2, 2, 2, 0]
    sums = torch.zeros(7).index_add(0, near.target, weight)
    torch.testing.assert_close(sums, torch.tensor([1.0] * 6 + [0.0]))
    for node in range(6):
        best = share[every.target == node].sort(descending=True).values[:2]
        kept = weight[near.target == node]
        torch.testing.assert_close(kept, best / best.sum())


def test_nobody_is_a_neighbour_of_itself_and_the_seed_decides():
    graph = chosen()
    near, weight = walk_neighbours(graph, walks=8, walk_length=4, seed=1)
    assert (near.source != near.target).all()
    again, same = walk_neighbours(graph, walks=8, walk_length=4, seed=1)
    assert torch.equal(near.edge_index, again.edge_index)
    assert torch.equal(weight, same)
    assert not torch.equal(weight, walk_neighbours(graph, walks=8, walk_length=4, seed=2)[1])


def test_no_edges():
    near, weight = walk_neighbours(graphs.edges(torch.empty(2, 0, dtype=torch.long), 3))
    assert near.num_edges == len(weight) == 0
    assert near.num_targets == 3


def test_bad_input():
    with refused("top", expected="at least 1", got="0", remedy="32"):
        walk_neighbours(chosen(), top=0)
    with refused("graph", expected="as many targets", got="2 targets", remedy="together"):
        walk_neighbours(graphs.edges(torch.tensor([[0], [1]]), (3, 2)))
