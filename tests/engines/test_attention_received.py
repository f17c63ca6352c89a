"""Attention that sources receive: sums of weights on every engine, their gradients and memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import graphs
from tests import memory
from tests.errors import refused

EDGES = graphs.edges(torch.tensor([[0, 4, 4, 2, 1, 6], [0, 0, 1, 1, 3, 5]]), (8, 6))
"""Eight sources, of which 3, 5 and 7 have no edges, and six targets, of which 2 and 4 have none."""
GRAPHS = {
    "complete": graphs.complete(),
    "causal": graphs.causal(),
    "window": graphs.window(2),
    "hubs": graphs.window(1) | graphs.hubs([3]),
    "blocks": graphs.batch(graphs.complete(), [3, 5]),
}
ENGINES = {"complete": ("tiles", "dense"), "causal": ("tiles",), "window": ("tiles", "dense")}
"""Engines for graphs, besides ``rows``, ``reference`` and ``auto``."""


def summed(query: Tensor, key: Tensor, graph: Any, **options: Any) -> Tensor:
    """Sum the weights over targets."""
    graph = graph if isinstance(graph, ew.Graph) else graph.bind(query.shape[-3], key.shape[-3])
    weights = ew.attention_weights(query, key, graph, **options)
    sums = weights.new_zeros(*weights.shape[:-2], graph.num_sources, weights.shape[-1])
    return sums.index_add(-2, graph.source, weights)


def nodes(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.randn(shape, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", GRAPHS)
def test_sums_of_weights_on_each_engine(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    query, key = nodes(dtype, 2, 8, 4, 5), nodes(dtype, 8, 2, 5)
    expected = summed(query.double(), key.double().repeat_interleave(2, -2), GRAPHS[name])
    for engine in ("auto", "rows", "reference", *ENGINES.get(name, ())):
        received = ew.attention_received(query, key, GRAPHS[name], engine=engine)
        assert received.dtype == dtype
        tolerance = 1e-6 if dtype == torch.float32 else 1e-12
        torch.testing.assert_close(received.double(), expected, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(received.sum(-2), received.new_full((2, 4), 8.0))


def test_sources_without_edges_receive_nothing() -> None:
    query, key = nodes(torch.double, 6, 2, 3), nodes(torch.double, 8, 2, 3)
    received = ew.attention_received(query, key, EDGES)
    torch.testing.assert_close(received, summed(query, key, EDGES))
    assert not received[[3, 5, 7]].any()
    torch.testing.assert_close(received.sum(0), torch.tensor([4.0, 4.0]).double())
    bias = torch.zeros(6, 1, dtype=torch.double)
    bias[4] = -torch.inf  # the only edge of target 3
    received = ew.attention_received(query, key, EDGES, bias=bias)
    torch.testing.assert_close(received.sum(0), torch.tensor([3.0, 3.0]).double())
    empty = ew.attention_received(query[:0], key, graphs.complete())
    assert empty.shape == (8, 2)
    assert not empty.any()


def terms() -> dict[str, dict[str, Any]]:
    torch.manual_seed(1)
    window = graphs.window(2).bind(8)
    edge_count = window.num_edges
    make = {"dtype": torch.double}
    place = torch.arange(8)
    offsets = ew.Offsets(place, place + 7, torch.arange(15), window)
    return {
        "bias": {"bias": torch.randn(3, edge_count, 2, **make)},
        "table": {"bias": ew.TableBias(torch.arange(edge_count) % 3, torch.randn(3, 2, **make))},
        "offsets": {"bias": ew.OffsetBias(offsets, torch.randn(15, 2, **make))},
        "gain": {"gain": torch.randn(edge_count, 1, **make)},
        "edge_key": {"edge_key": torch.randn(edge_count, 2, 5, **make)},
        "projected": {
            "edge_key": ew.Projected(
                torch.randn(edge_count, 4, **make), torch.randn(2, 5, 4, **make)
            )
        },
        "additive": {"score": ew.Additive(weight=torch.randn(2, 5, **make))},
        "none": {"score": None, "bias": torch.randn(edge_count, 2, **make)},
        "function": {"score": lambda q, k: -(q - k).square().sum(-1)},
        "entmax": {"normaliser": ew.Entmax(torch.tensor([1.3, 2.0], **make))},
    }


def leaves(term: Any) -> list[Tensor]:
    if isinstance(term, Tensor):
        return [term.requires_grad_()] if term.is_floating_point() else []
    return [x for part in getattr(term, "__dict__", {}).values() for x in leaves(part)]


@pytest.mark.parametrize("name", terms())
def test_terms_and_gradients(name: str) -> None:
    options = terms()[name]
    query, key = nodes(torch.double, 8, 2, 5), nodes(torch.double, 8, 2, 5)
    inputs = [*leaves(query), *leaves(key), *(x for term in options.values() for x in leaves(term))]
    weight = nodes(torch.double, 8, 2)
    for engine in ("auto", "reference"):
        received = ew.attention_received(query, key, graphs.window(2), engine=engine, **options)
        expected = summed(query, key, graphs.window(2), **options)
        torch.testing.assert_close(received, expected, rtol=0, atol=1e-12)
        of_sum = [
            torch.autograd.grad((x * weight).sum(), inputs, allow_unused=True)
            for x in (received, expected)
        ]
        for grad, expected_grad in zip(*of_sum, strict=True):
            if expected_grad is not None and expected_grad.any():
                torch.testing.assert_close(grad, expected_grad)


def test_dropout_and_edge_values_are_ignored_as_in_weights() -> None:
    x = nodes(torch.double, 8, 2, 4)
    graph = graphs.window(2).bind(8)
    options: Any = {"dropout": 0.5, "edge_value": nodes(torch.double, graph.num_edges, 2, 4)}
    received = ew.attention_received(x, x, graph, **options)
    torch.testing.assert_close(received, summed(x, x, graph))


def test_modes_of_pytorch() -> None:
    x = nodes(torch.float32, 8, 2, 4)
    expected = summed(x, x, graphs.causal())
    with torch.no_grad():
        received = ew.attention_received(x, x, graphs.causal())
    torch.testing.assert_close(received, expected)
    assert not received.requires_grad
    with torch.inference_mode():
        received = ew.attention_received(x * 1, x * 1, graphs.causal())
    torch.testing.assert_close(received, expected)
    with torch.autocast("cpu", torch.bfloat16):
        received = ew.attention_received(x.bfloat16(), x, graphs.causal())
    assert received.dtype == torch.bfloat16
    torch.testing.assert_close(received.float(), expected, rtol=0.02, atol=0.02)


class Bilinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return (query @ self.weight * key).sum(-1)


def test_a_score_with_parameters_has_no_gradient() -> None:
    x, score = nodes(torch.float32, 8, 2, 4), Bilinear()
    with refused("score", expected="without parameters", got="Bilinear", remedy="no_grad"):
        ew.attention_received(x, x, graphs.causal(), score=score)
    with torch.no_grad():
        received = ew.attention_received(x, x, graphs.causal(), score=score)
    expected = summed(x @ score.weight, x, graphs.causal(), score=ew.Dot(1.0))
    torch.testing.assert_close(received, expected)


@memory.readable
def test_the_memory_does_not_depend_on_the_number_of_edges() -> None:
    query, key = torch.randn(16384, 1, 8), torch.randn(16384, 1, 8)
    graph, received = graphs.causal().bind(16384), []
    ew.attention_received(query[:64], key[:64], graphs.causal(), engine="tiles")
    grown = memory.growth(
        lambda: received.append(ew.attention_received(query, key, graph, engine="tiles"))
    )
    assert abs(float(received[0].sum()) / 16384 - 1) < 1e-4
    # In kB per token; weights of all edges would take 32.
    assert grown / 1024 / 16384 < 2


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("name", GRAPHS)
def test_values_of_width_1(name: str, dropout: float) -> None:
    """The kernels of ``tiles`` add values of width 1 without a matrix product."""
    graph = GRAPHS[name]
    graph = graphs.batch(graphs.complete(), [100, 60]) if name == "blocks" else graph.bind(160)
    inputs = [nodes(torch.double, 160, 2, width).requires_grad_() for width in (5, 5, 1)]
    results = []
    for engine in ("tiles", "reference"):
        torch.manual_seed(3)
        out = ew.attend(*inputs, graph, dropout=dropout, engine=engine)
        of_all = torch.autograd.grad(out.square().sum(), inputs, retain_graph=True)
        of_values = torch.autograd.grad(out.square().sum(), inputs[2])
        results.append([out, *of_all, *of_values])
    for result, expected in zip(*results, strict=True):
        torch.testing.assert_close(result, expected)
    value = inputs[2].detach().clone()
    value[50] = torch.nan
    out = ew.attend(*inputs[:2], value, graph, engine="tiles")
    reads = torch.zeros(160, dtype=torch.bool)
    reads[graph.target[graph.source == 50]] = True
    assert torch.equal(out.isnan().any(-1).any(-1), reads)
