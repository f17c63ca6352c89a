"""The three steps of attention one by one give attention."""

from __future__ import annotations

import pytest
import torch

import edgewise as ew
from edgewise import graphs
from tests.engines.calls import BATCHED, BIASES, SCORES, VECTORS, Kind, make_call
from tests.engines.test_reference import GRAPHS


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("kind", [*SCORES, *BIASES, *BATCHED, VECTORS[0]], ids=str)
def test_scores_softmax_and_sum_are_attention(kind: Kind, name: str) -> None:
    graph = GRAPHS[name]
    query, key, value = make_call(graph, kind).nodes
    options = make_call(graph, kind).options
    scores = ew.edge_scores(query, key, graph, **options)
    assert scores.shape[-2:] == (graph.num_edges, 2)
    weights = ew.edge_softmax(scores, graph)
    assert weights.equal(ew.attention_weights(query, key, graph, **options))
    out = ew.aggregate(value, graph, weight=weights, engine="reference")
    expected = ew.attend(query, key, value, graph, **options, engine="reference")
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", [name for name in GRAPHS if GRAPHS[name].num_edges])
@pytest.mark.parametrize("kind", [*SCORES, *BIASES, *BATCHED, VECTORS[0]], ids=str)
def test_weights_of_chosen_edges_alone(kind: Kind, name: str) -> None:
    graph = GRAPHS[name]
    query, key, _ = make_call(graph, kind).nodes
    options = make_call(graph, kind).options
    chosen = torch.tensor([graph.num_edges - 1, 0, 0])
    every = ew.attention_weights(query, key, graph, **options)
    some = ew.attention_weights(query, key, graph, edges=chosen, **options)
    torch.testing.assert_close(some, every[..., chosen, :], rtol=1e-9, atol=1e-12)


def test_chosen_edges_of_a_masked_target_weigh_nothing() -> None:
    graph = graphs.edges(torch.tensor([[0, 1], [0, 0]]), 2)
    bias = torch.full((2, 1), -torch.inf)
    x = torch.randn(2, 2, 4)
    weights = ew.attention_weights(x, x, graph, bias=bias, edges=torch.tensor([1]))
    assert weights.tolist() == [[0.0, 0.0]]


def test_weights_of_a_target_sum_to_one() -> None:
    graph = GRAPHS["copies and isolated"]
    weights = ew.edge_softmax(torch.randn(3, graph.num_edges, 2, dtype=torch.float64), graph)
    total = ew.aggregate(torch.ones(6, 2, 1, dtype=torch.float64), graph, weight=weights)
    reads = (graph.in_degree() > 0).double()[:, None, None].expand(3, 6, 2, 1)
    torch.testing.assert_close(total, reads, rtol=0, atol=1e-15)


def test_minus_infinity_drops_an_edge() -> None:
    graph = graphs.complete().bind(1, 3)
    weights = ew.edge_softmax(torch.tensor([[0.0], [-torch.inf], [0.0]]), graph)
    assert weights.flatten().tolist() == [0.5, 0, 0.5]
    weights = ew.edge_softmax(torch.full((3, 1), -torch.inf), graph)
    assert weights.flatten().tolist() == [0, 0, 0]


def test_leading_dimensions() -> None:
    graph = GRAPHS["union"]
    query, key = torch.randn(2, 3, 5, 2, 4), torch.randn(3, 5, 2, 4)
    for step in (ew.edge_scores, ew.attention_weights):
        together = step(query, key, graph)
        for i, j in ((0, 0), (1, 2)):
            torch.testing.assert_close(together[i, j], step(query[i, j], key[j], graph))
    unscored = ew.attention_weights(query, key, graph, score=None)
    evenly = (1 / graph.in_degree())[graph.target, None].expand_as(unscored)
    torch.testing.assert_close(unscored, evenly)
