"""Large negative biases: score and bias are added in the engine's arithmetic, on every engine.

Scores are small integers, so that their sum with a bias rounds alike in any order of operations.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines import ENGINES
from edgewise.engines.call import ACCUMULATORS
from edgewise.graphs import Graph
from tests.errors import case

GRAPHS: dict[str, Graph] = {
    "complete": graphs.complete().bind(6),
    "causal": graphs.causal().bind(7),
    "packed": graphs.batch(graphs.complete(), [4, 1, 3]),
    "union": (graphs.window(1) | graphs.hubs([0, 5])).bind(8),
    "edges": graphs.edges(torch.tensor([[0, 1, 2, 3, 3, 2], [0, 0, 0, 0, 2, 2]]), 4),
}
BIASES = [-1e4, -1e8, -1e30, "smallest", -torch.inf, 1e8]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
SCORE = ew.Dot(1.0)


def masks(graph: Graph) -> dict[str, Tensor]:
    """Edges ``[E, 2]`` with the bias: all, those of two targets, and some, by head."""
    edge = torch.arange(graph.num_edges)
    two = (graph.target == 0) | (graph.target == graph.num_targets - 1)
    some = torch.stack([edge % 3 == 0, edge % 2 == 1], dim=1)
    return {
        "all": torch.ones(graph.num_edges, 1, dtype=torch.bool),
        "two targets": two[:, None].expand(-1, 2),
        "some": some | two[:, None],
    }


def nodes(graph: Graph, dtype: torch.dtype) -> list[Tensor]:
    sizes = graph.num_targets, graph.num_sources, graph.num_sources
    return [torch.randint(-2, 3, (size, 2, 4)).to(dtype).requires_grad_() for size in sizes]


def formula(query: Tensor, key: Tensor, value: Tensor, graph: Graph, bias: Tensor) -> Tensor:
    """Return the formula in float64 with score + bias rounded as the dtype of the bias says."""
    query, key, value = query.double(), key.double(), value.double()
    exact = (query[graph.target] * key[graph.source]).sum(-1)
    rounded = (exact.to(bias.dtype) + bias).double()
    scores = exact + (rounded - exact).detach().nan_to_num(neginf=-torch.inf)
    weights = ew.edge_softmax(scores, graph)
    return ew.aggregate(value, graph, weight=weights, engine="reference")


def assert_formula(graph: Graph, dtype: torch.dtype, engine: str, bias: Tensor) -> None:
    given = nodes(graph, dtype)
    try:
        out = ew.attend(*given, graph, bias=bias, score=SCORE, engine=engine)
    except ew.ArgumentError:
        pytest.skip("refused")
    expected = formula(*given, graph, bias)
    weight = torch.randint(-2, 3, out.shape)
    eps = 8 * torch.finfo(dtype).eps
    pairs = zip(
        [out, *torch.autograd.grad((out * weight.to(dtype)).sum(), given)],
        [expected, *torch.autograd.grad((expected * weight).sum(), given)],
        strict=True,
    )
    for tensor, truth in pairs:
        torch.testing.assert_close(tensor.double(), truth.double(), rtol=eps, atol=16 * eps)


@pytest.mark.slow(after=2)
@pytest.mark.parametrize("engine", [*ENGINES, "auto"])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_large_bias_is_added_in_the_arithmetic_of_the_engine(name: str, engine: str) -> None:
    graph = GRAPHS[name]
    for dtype in DTYPES:
        kind = ACCUMULATORS[dtype]
        for size in BIASES:
            number = torch.finfo(dtype).min if isinstance(size, str) else size
            for which, mask in masks(graph).items():
                bias = torch.zeros(mask.shape, dtype=kind).masked_fill(mask, number)
                with case(f"{dtype} {size} on {which}"):
                    assert_formula(graph, dtype, engine, bias)


@pytest.mark.parametrize("name", GRAPHS)
def test_chosen_weights_are_those_of_all_edges(name: str) -> None:
    """A log-sum-exp of -1e8, kept as one number, would make each of them 1."""
    graph = GRAPHS[name]
    query, key, _ = nodes(graph, torch.float32)
    chosen = torch.tensor([0, graph.num_edges - 1, 0])
    for size in (-600.0, -1e4, -1e8, 1e8):
        for which, mask in masks(graph).items():
            bias = torch.zeros(mask.shape).masked_fill(mask, size)
            with case(f"{size} on {which}"):
                every = ew.attention_weights(query, key, graph, bias=bias, score=SCORE)
                some = ew.attention_weights(query, key, graph, bias=bias, score=SCORE, edges=chosen)
                torch.testing.assert_close(some, every[chosen], rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("engine", [*ENGINES, "auto"])
def test_a_nan_in_one_row_changes_no_other_row(engine: str) -> None:
    """The largest bias is then NaN, which no comparison calls large."""
    for name in ("complete", "causal", "union"):
        graph = GRAPHS[name]
        is_nan = (graph.target == 0)[:, None]
        query, key, value = nodes(graph, torch.float32)
        bias = torch.full((graph.num_edges, 1), -1e9).masked_fill(is_nan, torch.nan)
        try:
            out = ew.attend(query, key, value, graph, bias=bias, score=SCORE, engine=engine)
        except ew.ArgumentError:
            continue
        expected = formula(query, key, value, graph, bias.nan_to_num(-1e9))
        with case(name):
            torch.testing.assert_close(out[1:].double(), expected[1:], rtol=1e-5, atol=1e-5)
            chosen = (~is_nan[:, 0]).nonzero()[:, 0]
            every = ew.attention_weights(query, key, graph, bias=bias, score=SCORE)
            some = ew.attention_weights(query, key, graph, bias=bias, score=SCORE, edges=chosen)
            torch.testing.assert_close(some, every[chosen], rtol=1e-4, atol=1e-7)
