"""Sums, means and extremes over neighbours, against a loop."""

from __future__ import annotations

import pytest
import torch

import edgewise as ew
from edgewise import graphs
from edgewise.graphs import Graph
from tests.engines import oracle
from tests.engines.calls import Call, assert_same, results
from tests.engines.test_dense import GRAPHS as DENSE_GRAPHS
from tests.engines.test_reference import GRAPHS as ANY_GRAPHS

CASES = [
    pytest.param(engine, reduce, graph, id=f"{engine} {reduce} {name}")
    for engine, reduces, chosen in (
        ("reference", ("sum", "mean", "max", "min"), ANY_GRAPHS | DENSE_GRAPHS),
        ("dense", ("sum", "mean"), DENSE_GRAPHS),
    )
    for name, graph in chosen.items()
    for reduce in reduces
]


def make(graph: Graph, weights: int | None, batch: tuple[int, ...] = ()) -> Call:
    """``weights``: a weight a head (2), one for all heads (1), or none."""
    shape = (*batch, graph.num_sources, 2, 3)
    value = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    if weights is None:
        return Call((value,), {}, [value])
    weight = torch.randn(graph.num_edges, weights, dtype=torch.float64, requires_grad=True)
    return Call((value,), {"weight": weight}, [value, weight])


@pytest.mark.parametrize("weights", [None, 1, 2])
@pytest.mark.parametrize(("engine", "reduce", "graph"), CASES)
def test_aggregate(engine: str, reduce: str, graph: Graph, weights: int | None) -> None:
    call = make(graph, weights)
    ours = results(ew.aggregate, call, graph, reduce=reduce, engine=engine)
    call.options.setdefault("weight", None)
    theirs = results(oracle.aggregate, call, graph, reduce=reduce)
    assert_same(ours, theirs, 1e-13)


@pytest.mark.parametrize("engine", ["dense", "reference"])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("name", ["complete", "causal", "window", "ragged cross batch"])
def test_a_batch_is_its_members(name: str, reduce: str, engine: str) -> None:
    graph = DENSE_GRAPHS[name]
    (value,) = make(graph, None, (2, 3)).nodes
    weight = torch.randn(3, graph.num_edges, 2, dtype=torch.float64)
    out = ew.aggregate(value, graph, weight=weight, reduce=reduce, engine=engine)
    for a in range(2):
        for b in range(3):
            one = oracle.aggregate(value[a, b], graph, weight[b], reduce)
            torch.testing.assert_close(out[a, b], one, rtol=0, atol=1e-13)


def test_plain_features_and_one_weight_an_edge() -> None:
    graph = ANY_GRAPHS["bipartite"]
    value, weight = torch.randn(6, 5), torch.randn(graph.num_edges)
    out = ew.aggregate(value, graph, weight=weight)
    assert out.shape == (4, 5)
    heads = ew.aggregate(value[:, None], graph, weight=weight[:, None])
    assert out.equal(heads[:, 0])


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_ties_share_the_gradient(reduce: str) -> None:
    value = torch.tensor([[1.0], [1.0], [0.0 if reduce == "max" else 2.0]], requires_grad=True)
    graph = graphs.complete().bind(1, 3)
    (gradient,) = torch.autograd.grad(ew.aggregate(value, graph, reduce=reduce).sum(), value)
    assert gradient.tolist() == [[0.5], [0.5], [0.0]]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_who_reads_nothing_gets_zeros(reduce: str) -> None:
    value = torch.full((5, 3), -2.0, requires_grad=True)
    graph = DENSE_GRAPHS["isolated"]
    out = ew.aggregate(value, graph, reduce=reduce)
    assert (out[graph.in_degree() == 0] == 0).all()
    (gradient,) = torch.autograd.grad(out.sum(), value)
    assert (gradient[graph.out_degree() == 0] == 0).all()


@pytest.mark.parametrize("engine", ["dense", "reference"])
def test_sixteen_bit_sums_are_rounded_once(engine: str) -> None:
    """2048 + 1 is 2048 in float16: adding ones one by one would stay there."""
    value = torch.ones(4096, 1, dtype=torch.float16)
    out = ew.aggregate(value, graphs.complete().bind(1, 4096), engine=engine)
    assert out.item() == 4096
    assert out.dtype == torch.float16
