"""Sums, means and extremes over neighbours, by hand; over every graph in ``test_cases.py``."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines import ENGINES
from edgewise.engines.native import library
from edgewise.graphs import Graph
from tests.engines.cases import GRAPHS, Aggregation, edges, serving

EXTREMES = pytest.mark.parametrize("reduce", ["max", "min"])


def able(graph: Graph, reduce: str = "sum") -> set[str]:
    """The engines that serve."""
    return serving(Aggregation(), graph, reduce)


def test_plain_features_and_one_weight_an_edge() -> None:
    graph = GRAPHS["bipartite"]
    value, weight = torch.randn(19, 5), torch.randn(graph.num_edges)
    out = ew.aggregate(value, graph, weight=weight)
    heads = ew.aggregate(value[:, None], graph, weight=weight[:, None])
    assert out.equal(heads[:, 0])


@EXTREMES
def test_ties_share_the_gradient_evenly(reduce: ew.Reduce) -> None:
    """Also of a source that is read twice."""
    graph = graphs.edges(torch.tensor([[0, 1, 2, 1], [0, 0, 0, 0]]), (3, 1))
    for engine in able(graph, reduce):
        value = torch.tensor([[1.0, 5.0], [1.0, 5.0], [1.0, 5.0]])[:, None].requires_grad_()
        ew.aggregate(value, graph, reduce=reduce, engine=engine).sum().backward()
        assert value.grad.squeeze().tolist() == [[0.25, 0.25], [0.5, 0.5], [0.25, 0.25]]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_a_target_that_reads_nothing_gets_zero(reduce: ew.Reduce) -> None:
    graph = graphs.edges(torch.tensor([[0], [1]]), (2, 3))
    for engine in able(graph, reduce):
        value = torch.full((2, 1, 4), -2.0, requires_grad=True)
        out = ew.aggregate(value, graph, reduce=reduce, engine=engine)
        assert out[:, 0, 0].tolist() == [0.0, -2.0, 0.0]
        (gradient,) = torch.autograd.grad(out.sum(), value)
        assert gradient[:, 0, 0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("engine", [*ENGINES, "auto"])
def test_sixteen_bit_sums_are_rounded_once(engine: str) -> None:
    """2048 + 1 is 2048 in float16: adding ones one by one would stay there."""
    graph = graphs.complete().bind(1, 4096)
    if engine in able(graph):
        value = torch.ones(4096, 1, dtype=torch.float16)
        out = ew.aggregate(value, graph, engine=engine)
        assert out.item() == 4096
        assert out.dtype == torch.float16
        weight = torch.tensor([1.0, 2**-20 - 1.0])  # keeps its 32 bits
        out = ew.aggregate(value[:2], graphs.complete().bind(1, 2), weight=weight, engine=engine)
        assert out.item() == 2**-20


@pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)
def test_many_hops_reuse_one_layout() -> None:
    """MAGNA's diffusion: the same weights several times, differentiated through all of them."""
    value = torch.randn(13, 3, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(60, 3, dtype=torch.float64, requires_grad=True)

    def diffused(engine: str) -> list[Tensor]:
        z = value
        for _ in range(4):
            hop = ew.aggregate(z, edges(13, 13, 60), weight=weight, engine=engine)
            z = 0.9 * hop + 0.1 * value
        return [z, *torch.autograd.grad(z.square().sum(), (value, weight))]

    for expected, got in zip(diffused("reference"), diffused("rows"), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-9)
