"""Outputs without an edge equal those of the graph without this edge."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgewise import aggregate, attend, graphs
from edgewise.attention.attend import AttendOptions
from edgewise.attention.biases import Projected
from edgewise.attention.normalisers import Normaliser
from edgewise.explain.edges_left_out import (
    effects_left_out,
    effects_of_aggregation,
    gradients_of_gains,
    outputs_left_out,
)
from edgewise.graphs import Graph


def some_graph() -> Graph:
    index = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 5], [0, 0, 0, 1, 1, 2, 2, 3, 4]])
    return graphs.edges(index, 6)


def nodes(count: int, heads: int, width: int, seed: int) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(count, heads, width, generator=made, dtype=torch.double)


def test_an_output_left_out_is_that_of_the_graph_without_the_edge() -> None:
    graph = some_graph()
    query, key, value = (nodes(6, 4, 3, seed) for seed in range(3))
    key = key[:, :2]  # grouped heads
    value = value[:, :2]
    bias = torch.randn(graph.num_edges, 4, dtype=torch.double)
    found = outputs_left_out(query, key, value, graph, bias=bias)
    for edge in range(graph.num_edges):
        kept = torch.arange(graph.num_edges) != edge
        rest = graphs.edges(graph.edge_index[:, kept], 6)
        expected = attend(query, key, value, rest, bias=bias[kept])[graph.target[edge]]
        torch.testing.assert_close(found[edge], expected)


def test_a_weight_close_to_1_is_computed_again() -> None:
    graph = some_graph()
    query, key, value = (nodes(6, 1, 3, seed).float() for seed in range(3))
    bias = torch.zeros(graph.num_edges, 1)
    bias[1] = 30.0  # weight 1 - 1e-13, which float32 rounds to 1
    found = outputs_left_out(query, key, value, graph, bias=bias)
    rest = graphs.edges(graph.edge_index[:, torch.arange(9) != 1], 6)
    expected = attend(query, key, value, rest)[0]
    torch.testing.assert_close(found[1], expected)


def test_the_gradient_without_the_only_edge_of_a_target_is_0() -> None:
    graph = graphs.edges(torch.tensor([[0, 1, 2], [1, 2, 2]]), 3)  # the first has a weight of 1
    query, key, value = (nodes(3, 1, 3, seed).requires_grad_() for seed in range(3))
    outputs_left_out(query, key, value, graph).sum().backward()
    expected = torch.tensor([0.0, 1.0, 1.0], dtype=torch.double)
    assert value.grad is not None
    torch.testing.assert_close(value.grad[:, 0, 0], expected)
    torch.testing.assert_close(key.grad, torch.zeros_like(key))


def test_edge_values_are_left_out_too() -> None:
    graph = some_graph()
    query, key, value = (nodes(6, 2, 3, seed) for seed in range(3))
    features = torch.randn(graph.num_edges, 4, dtype=torch.double)
    vectors = Projected(features, torch.randn(2, 3, 4, dtype=torch.double))
    found = outputs_left_out(query, key, value, graph, edge_key=vectors, edge_value=vectors)
    kept = torch.arange(9) != 4
    fewer = vectors.edges(kept)
    rest = graphs.edges(graph.edge_index[:, kept], 6)
    expected = attend(query, key, value, rest, edge_key=fewer, edge_value=fewer)[1]
    torch.testing.assert_close(found[4], expected)


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_effects_are_products_of_the_gradient_and_the_change(scale: float) -> None:
    graph = some_graph()
    query, key, value, gradient = (nodes(6, 2, 3, seed) for seed in range(4))
    query = query * scale  # large scores have dominant weights
    changes = outputs_left_out(query, key, value, graph)
    changes = changes - attend(query, key, value, graph)[graph.target]
    expected = (changes * gradient[graph.target]).sum(-1)
    found = effects_left_out(query, key, value, graph, gradient)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("normaliser", ["softmax", "entmax", "sparsemax"])
def test_gradients_of_gains_are_those_of_autograd(normaliser: Normaliser) -> None:
    graph = some_graph()
    query, key, value, gradient = (nodes(6, 2, 3, seed) for seed in range(4))
    bias = torch.randn(graph.num_edges, 2, dtype=torch.double)
    gain = torch.ones(graph.num_edges, 2, dtype=torch.double, requires_grad=True)
    options: AttendOptions = {"bias": bias, "normaliser": normaliser}
    options["edge_key"], options["edge_value"] = torch.randn(
        2, graph.num_edges, 2, 3, dtype=torch.double
    )
    found = gradients_of_gains(query, key, value, graph, gradient, **options)
    options["gain"] = gain
    attend(query, key, value, graph, **options).backward(gradient)
    torch.testing.assert_close(found, gain.grad)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("weighted", [True, False])
def test_effects_of_aggregation_are_those_without_the_edge(reduce: str, weighted: bool) -> None:
    graph = some_graph()
    value, gradient = nodes(6, 2, 3, 0), nodes(6, 2, 3, 1)
    weight = torch.rand(graph.num_edges, 2, dtype=torch.double) if weighted else None
    out = aggregate(value, graph, weight=weight, reduce=reduce)  # type: ignore[arg-type]
    found = effects_of_aggregation(value, weight, graph, reduce, gradient)  # type: ignore[arg-type]
    for edge in range(graph.num_edges):
        kept = torch.arange(graph.num_edges) != edge
        rest = graphs.edges(graph.edge_index[:, kept], 6)
        fewer = None if weight is None else weight[kept]
        changed = aggregate(value, rest, weight=fewer, reduce=reduce)  # type: ignore[arg-type]
        expected = ((changed - out) * gradient).sum((0, 2))
        torch.testing.assert_close(found[edge], expected)


def test_an_extreme_that_another_edge_equals_has_no_effect() -> None:
    graph = graphs.edges(torch.tensor([[0, 1, 2], [0, 0, 0]]), 3)
    value = torch.tensor([1.0, 1.0, 0.5])[:, None, None]
    found = effects_of_aggregation(value, None, graph, "max", torch.ones(3, 1, 1))
    assert found[:, 0].tolist() == [0.0, 0.0, 0.0]
    value[0] = 2.0
    found = effects_of_aggregation(value, None, graph, "max", torch.ones(3, 1, 1))
    assert found[:, 0].tolist() == [-1.0, 0.0, 0.0]
