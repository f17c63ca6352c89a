"""The three steps of attention one by one give attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines.dense import Dense
from edgewise.engines.native import library
from edgewise.engines.reference import Reference
from edgewise.engines.rows import Rows
from tests.engines.cases import CALLS, GRAPHS
from tests.errors import refused


@pytest.mark.parametrize("name", ["copies", "bipartite", "BigBird", "no edges"])
@pytest.mark.parametrize("call", ["plain", "gatv2", "gain, masked", "bias from a table", "own"])
def test_scores_softmax_and_sum_are_attention(call: str, name: str) -> None:
    """Each step has its own truth in ``tests/engines/test_cases.py``."""
    graph = GRAPHS[name]
    case = CALLS[call].over(graph)
    leaves = {name: leaf.tensor for name, leaf in case.leaves.items()}
    query, key, value = (leaves[name] for name in ("query", "key", "value"))
    options = case.options(leaves)
    weights = ew.edge_softmax(ew.edge_scores(query, key, graph, **options), graph)
    assert weights.equal(ew.attention_weights(query, key, graph, **options))
    out = ew.aggregate(value, graph, weight=weights, engine="reference")
    expected = ew.attend(query, key, value, graph, **options, engine="reference")
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-14)


def test_an_edge_may_be_chosen_twice() -> None:
    graph = GRAPHS["copies"]
    query, key = torch.randn(2, 13, 2, 4, dtype=torch.float64)
    chosen = torch.tensor([graph.num_edges - 1, 0, 0])
    every = ew.attention_weights(query, key, graph)
    some = ew.attention_weights(query, key, graph, edges=chosen)
    torch.testing.assert_close(some, every[chosen], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_chosen_edges_are_indices_in_any_integer_type(dtype: torch.dtype) -> None:
    """As many as there are edges, so that a mask would fit too."""
    graph = graphs.window(1).bind(3)
    query, key = torch.randn(2, 3, 2, 4)
    chosen = torch.tensor([1, 0, 0, 1, 1, 0, 1])
    for normaliser in ("softmax", "entmax"):
        some = ew.attention_weights(
            query, key, graph, edges=chosen.to(dtype), normaliser=normaliser
        )
        every = ew.attention_weights(query, key, graph, normaliser=normaliser)
        torch.testing.assert_close(some, every[chosen])


def test_chosen_edges_of_a_masked_target_weigh_nothing() -> None:
    graph = graphs.edges(torch.tensor([[0, 1], [0, 0]]), 2)
    bias = torch.full((2, 1), -torch.inf)
    x = torch.randn(2, 2, 4)
    weights = ew.attention_weights(x, x, graph, bias=bias, edges=torch.tensor([1]))
    assert weights.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("normaliser", ["softmax", "entmax"])
def test_selected_edges_are_integers_or_booleans(normaliser: str) -> None:
    graph = graphs.causal().bind(4)
    query, key = torch.randn(2, 4, 2, 3)
    weights = ew.attention_weights(query, key, graph, normaliser=normaliser)
    for dtype in (torch.float32, torch.float64, torch.complex64):
        edges = torch.tensor([0.9, 1.2]).to(dtype)
        with refused("edges", expected="integer", got=str(dtype), remedy=".long()"):
            ew.attention_weights(query, key, graph, edges=edges, normaliser=normaliser)
    is_loop = graph.source == graph.target
    for edges in (
        torch.tensor([]),
        torch.tensor([0, 3], dtype=torch.uint8),
        torch.tensor([0, -1], dtype=torch.int16),
        is_loop,
    ):
        some = ew.attention_weights(query, key, graph, edges=edges, normaliser=normaliser)
        index = edges if edges.dtype == torch.bool else edges.long()
        torch.testing.assert_close(some, weights[index])


def test_weights_of_a_target_sum_to_one() -> None:
    graph = GRAPHS["copies"]
    weights = ew.edge_softmax(torch.randn(3, graph.num_edges, 2, dtype=torch.float64), graph)
    total = ew.aggregate(torch.ones(13, 2, 1, dtype=torch.float64), graph, weight=weights)
    reads = (graph.in_degree() > 0).double()[:, None, None].expand(3, 13, 2, 1)
    torch.testing.assert_close(total, reads, rtol=0, atol=1e-15)


def test_minus_infinity_drops_an_edge() -> None:
    graph = graphs.complete().bind(1, 3)
    weights = ew.edge_softmax(torch.tensor([[0.0], [-torch.inf], [0.0]]), graph)
    assert weights.flatten().tolist() == [0.5, 0, 0.5]
    weights = ew.edge_softmax(torch.full((3, 1), -torch.inf), graph)
    assert weights.flatten().tolist() == [0, 0, 0]


def test_leading_dimensions() -> None:
    graph = GRAPHS["BigBird"]
    query, key = torch.randn(2, 3, 8, 2, 4), torch.randn(3, 8, 2, 4)
    for step in (ew.edge_scores, ew.attention_weights):
        together = step(query, key, graph)
        for i, j in ((0, 0), (1, 2)):
            torch.testing.assert_close(together[i, j], step(query[i, j], key[j], graph))
    unscored = ew.attention_weights(query, key, graph, score=None)
    evenly = (1 / graph.in_degree())[graph.target, None].expand_as(unscored)
    torch.testing.assert_close(unscored, evenly)


@pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)
def test_kernels_compute_the_steps_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the reference computes it")

    for name in ("edge_scores", "edge_softmax"):
        monkeypatch.setattr(Reference, name, refuse)
    query, key = torch.randn(2, 13, 2, 4)
    weights = ew.attention_weights(query, key, GRAPHS["copies"])
    assert weights.shape == (GRAPHS["copies"].num_edges, 2)
    with pytest.raises(AssertionError, match="reference"):  # a score of one's own has no kernel
        ew.edge_scores(query, key, GRAPHS["copies"], score=lambda q, k: (q * k).sum(-1))


def steps(graph: ew.Graph, **options: Any) -> None:
    """All three steps, one after another."""
    query, key = torch.randn(2, graph.num_targets, 2, 4)
    weights = ew.edge_softmax(ew.edge_scores(query, key, graph, **options), graph)
    ew.aggregate(key, graph, weight=weights)


@pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)
@pytest.mark.parametrize("engine", ["reference", "dense", "rows"])
def test_a_chosen_engine_computes_all_steps(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of "dense" are PyTorch's operations, as a traced file without Edgewise needs."""

    def refuse(*_: object) -> None:
        raise AssertionError("another engine computes it")

    others = {"reference": (Rows, Dense), "dense": (Rows,), "rows": (Reference, Dense)}[engine]
    for other in others:
        for name in {"edge_scores", "edge_softmax", "aggregate"} & vars(other).keys():
            monkeypatch.setattr(other, name, refuse)
    with ew.using_engine(engine):
        steps(GRAPHS["BigBird"])
    with (
        ew.using_engine(others[0].name),
        pytest.raises(AssertionError, match="another engine computes it"),
    ):
        steps(GRAPHS["BigBird"])


def test_an_engine_that_cannot_compute_a_step_is_refused() -> None:
    graph = GRAPHS["BigBird"]
    with (
        ew.using_engine("rows"),
        refused("engine", expected="supports", got="only the scores", remedy="reference: supports"),
    ):
        steps(graph, score=lambda q, k: (q * k).sum(-1))
    with ew.using_engine("row"), refused("engine", expected="rows", got="row", remedy="'rows'"):
        steps(graph)
    with ew.using_engine("tiles"):  # which computes attention only
        ew.attention_weights(*torch.randn(2, graph.num_targets, 2, 4), graph)


STEPS: dict[str, Callable[[Tensor, Tensor, Tensor, ew.Graph], Tensor]] = {
    "attend": lambda x, y, _, graph: ew.attend(x, y, y, graph),
    "attend_with_lse": lambda x, y, _, graph: ew.attend_with_lse(x, y, y, graph)[1],
    "aggregate": lambda _, y, z, graph: ew.aggregate(y, graph, weight=z),
    "aggregate, max": lambda _, y, z, graph: ew.aggregate(y, graph, weight=z, reduce="max"),
    "edge_scores": lambda x, y, _, graph: ew.edge_scores(x, y, graph),
    "edge_scores, additive": lambda x, y, _, graph: ew.edge_scores(
        x, y, graph, score=ew.Additive("tanh", torch.ones(2, 3, dtype=torch.double))
    ),
    "edge_softmax": lambda _, __, z, graph: ew.edge_softmax(z, graph),
    "attention_weights": lambda x, y, _, graph: ew.attention_weights(x, y, graph),
    "attention_weights, entmax": lambda x, y, _, graph: ew.attention_weights(
        x, y, graph, normaliser=ew.Entmax(1.3)
    ),
    "attention_weights, edges": lambda x, y, _, graph: ew.attention_weights(
        x, y, graph, edges=torch.tensor([0, 4, 4])
    ),
}


def nodes_and_scores(graph: ew.Graph) -> list[Tensor]:
    shapes = [(5, 2, 3), (5, 2, 3), (graph.num_edges, 2)]
    return [torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in shapes]


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", STEPS)
def test_second_derivatives_on_the_reference(name: str) -> None:
    graph = graphs.edges(torch.tensor([[0, 1, 2, 2, 4, 4], [1, 1, 1, 0, 0, 3]]), 5)
    with ew.using_engine("reference"):
        torch.autograd.gradgradcheck(
            lambda *given: STEPS[name](*given, graph), nodes_and_scores(graph)
        )


@pytest.mark.parametrize("name", STEPS)
def test_every_step_runs_under_vmap(name: str) -> None:
    graph = graphs.window(1).bind(5)
    members = [nodes_and_scores(graph) for _ in range(2)]
    stacked = [torch.stack(tensors) for tensors in zip(*members, strict=True)]
    together = torch.func.vmap(lambda *given: STEPS[name](*given, graph))(*stacked)
    for out, given in zip(together, members, strict=True):
        torch.testing.assert_close(out, STEPS[name](*given, graph))
