"""NaN and infinities follow the formula on every engine: 0 times NaN is NaN, for each edge.

Random graphs and all other arguments are in ``tests/fuzz``, where the formula is in NumPy.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise._utils.errors import ArgumentError
from edgewise.engines import ENGINES
from edgewise.graphs import Graph
from tests.engines.cases import PIECE
from tests.errors import case

GRAPHS: dict[str, Graph] = {
    "complete": graphs.complete().bind(10),
    "causal": graphs.causal().bind(40),
    "blocks": graphs.blocks(8).bind(40),
    "union": (graphs.window(2) | graphs.hubs([0])).bind(90),
    "packed": graphs.batch(graphs.complete(), [5, 1, 12]),
    "several tiles": graphs.complete().bind(150),
}
HEADS = 8
BAD = 4
"""The node whose number is not finite."""


def nodes(graph: Graph, size: float = 10.0) -> dict[str, Tensor]:
    """Queries and keys so large that most weights underflow to 0 in float32."""
    query, key, value = torch.randn(3, graph.num_targets, HEADS, 16)
    return {"query": size * query, "key": size * key, "value": value}


def run(given: dict[str, Tensor], graph: Graph, engine: str, **options: Any) -> dict[str, Tensor]:
    """The output and the gradients of a call; an engine that refuses is skipped."""
    leaves = {name: x.clone().requires_grad_() for name, x in given.items()}
    try:
        out = ew.attend(*leaves.values(), graph, engine=engine, **options)
    except ArgumentError as error:
        pytest.skip(str(error))
    found = torch.autograd.grad(out.sum(), list(leaves.values()))
    return {"out": out.detach(), **dict(zip(leaves, found, strict=True))}


def read_by(graph: Graph, node: int) -> Tensor:
    """``[N_dst]``, the targets that read a node."""
    reads = torch.zeros(graph.num_targets, dtype=torch.bool)
    reads[graph.target[graph.source == node]] = True
    return reads


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_nan_query_makes_its_output_nan(name: str, engine: str) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        with case(dtype):
            check_query(GRAPHS[name], engine, dtype)


def check_query(graph: Graph, engine: str, dtype: torch.dtype) -> None:
    given = {leaf: x.to(dtype) for leaf, x in nodes(graph).items()}
    given["query"][BAD] = torch.nan
    found = run(given, graph, engine)
    only = torch.arange(graph.num_targets) == BAD
    assert found["out"].isnan().all((1, 2)).equal(only)
    assert found["out"].isnan().any((1, 2)).equal(only)
    assert found["query"].isnan().any((1, 2)).equal(only)
    sources = torch.zeros(graph.num_sources, dtype=torch.bool)
    sources[graph.source[graph.target == BAD]] = True
    for leaf in ("key", "value"):
        assert found[leaf].isnan().all((1, 2)).equal(sources)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["complete", "packed"])
def test_keys_that_are_all_nan_make_all_outputs_nan(name: str, engine: str) -> None:
    given = nodes(GRAPHS[name])
    given["key"][:] = torch.nan
    assert run(given, GRAPHS[name], engine)["out"].isnan().all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_value_reaches_each_target_that_reads_it(name: str, engine: str) -> None:
    """Whatever its weight is, and nobody else, forward and backward."""
    for number in (torch.nan, torch.inf, -torch.inf):
        with case(number):
            check_value(GRAPHS[name], engine, number)


def check_value(graph: Graph, engine: str, number: float) -> None:
    given = nodes(graph)
    given["value"][BAD, :, 3] = number
    found = run(given, graph, engine)
    reads = read_by(graph, BAD)
    assert (~found["out"][..., 3].isfinite()).all(1).equal(reads)
    assert (~found["out"].isfinite()).any((1, 2)).equal(reads)
    assert found["out"][..., :3].isfinite().all()
    assert found["query"].isnan().all((1, 2)).equal(reads)
    sources = torch.zeros(graph.num_sources, dtype=torch.bool)
    sources[graph.source[reads[graph.target]]] = True
    assert (~found["key"].isfinite()).all((1, 2)).equal(sources)  # of an infinity NaN or infinite
    assert found["value"].isfinite().all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_nan_in_the_gradient_reaches_each_source(name: str, engine: str) -> None:
    """All engines but ``dense``, which does not look at gradients, keep it on the edges."""
    graph = GRAPHS[name]
    leaves = {leaf: x.requires_grad_() for leaf, x in nodes(graph).items()}
    out = ew.attend(*leaves.values(), graph, engine=engine)
    grad = torch.ones_like(out)
    grad[BAD] = torch.nan
    _, of_key, of_value = torch.autograd.grad(out, list(leaves.values()), grad)
    read = torch.zeros(graph.num_sources, dtype=torch.bool)
    read[graph.source[graph.target == BAD]] = True
    for found in (of_key, of_value):
        if engine == "dense":
            assert found[read].isnan().all()
        else:
            assert found.isnan().all((1, 2)).equal(read)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_bias_of_minus_infinity_does_not_hide_a_nan(name: str, engine: str) -> None:
    graph = GRAPHS[name]
    bias = torch.zeros(graph.num_edges, 1)
    bias[graph.source == BAD] = -torch.inf
    given = nodes(graph, size=1.0)
    clean = run(given, graph, engine, bias=bias)
    assert clean["out"].isfinite().all()
    assert not clean["value"][BAD].any()
    given["value"][BAD] = torch.nan
    found = run(given, graph, engine, bias=bias)
    assert found["out"].isnan().all((1, 2)).equal(read_by(graph, BAD))


@pytest.mark.parametrize("engine", ENGINES)
def test_an_infinite_bias_stays_with_its_target(engine: str) -> None:
    graph = GRAPHS["causal"]
    bias = torch.zeros(graph.num_edges, 1)
    bias[graph.target == BAD] = torch.inf
    found = run(nodes(graph, size=1.0), graph, engine, bias=bias)
    assert found["out"].isnan().all((1, 2)).equal(torch.arange(graph.num_targets) == BAD)
    assert found["value"].isnan().any((1, 2)).equal(torch.arange(graph.num_sources) <= BAD)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_target_whose_edges_are_all_dropped_keeps_a_nan(engine: str) -> None:
    """Of a row that ``rows`` cuts into pieces, one of which has no weight at all."""
    for whole in (True, False):
        graph = graphs.complete().bind(1, PIECE + 5)
        bias = torch.full((graph.num_edges, 1), -torch.inf)
        if not whole:
            bias[0] = 0.0
        query, key = torch.randn(1, 2, 8), torch.randn(graph.num_sources, 2, 8)
        value = torch.randn(graph.num_sources, 2, 8)
        value[-1] = torch.nan
        assert ew.attend(query, key, value, graph, bias=bias, engine=engine).isnan().all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", GRAPHS)
def test_dropout_does_not_hide_a_nan(name: str, engine: str) -> None:
    graph = GRAPHS[name]
    given = nodes(graph)
    given["value"][BAD] = torch.nan
    found = run(given, graph, engine, dropout=0.9)
    assert found["out"].isnan().all((1, 2)).equal(read_by(graph, BAD))


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "tiles"])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_weight_of_0_does_not_hide_a_nan_in_a_sum(name: str, engine: str) -> None:
    graph = GRAPHS[name]
    value = torch.randn(graph.num_sources, 2, 8)
    value[BAD] = torch.nan
    for reduce in ("sum", "mean"):
        found = ew.aggregate(
            value, graph, weight=torch.zeros(graph.num_edges, 2), reduce=reduce, engine=engine
        )
        assert found.isnan().all((1, 2)).equal(read_by(graph, BAD))
        assert found.isnan().any((1, 2)).equal(read_by(graph, BAD))


@pytest.mark.parametrize("reduce", ["max", "min"])
@pytest.mark.parametrize("engine", ["reference", "rows"])
def test_the_extreme_of_a_nan_is_nan(engine: str, reduce: Any) -> None:
    graph = GRAPHS["union"]
    value = torch.randn(graph.num_sources, 2, 8)
    value[BAD] = torch.nan
    found = ew.aggregate(value, graph, reduce=reduce, engine=engine)
    assert found.isnan().all((1, 2)).equal(read_by(graph, BAD))


def test_a_nan_weight_of_an_additive_score_stays_on_the_edges() -> None:
    graph = graphs.window(1).bind(6)
    weight = torch.randn(2, 4)
    weight[1] = torch.nan
    leaves = [torch.randn(6, 2, 4, requires_grad=True) for _ in range(3)]
    graph = graphs.edges(torch.tensor([[0, 1], [0, 0]]), 6)
    out = ew.attend(*leaves, graph, score=ew.Additive("tanh", weight), engine="dense")
    for found in torch.autograd.grad(out.sum(), leaves):
        assert found[2:].isfinite().all()
