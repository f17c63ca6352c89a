"""Every differentiable argument has the gradient that finite differences find, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.graphs import Graph
from tests.engines.calls import BIASES, SCORES, VECTORS, Kind, make_call

GRAPHS: dict[str, Graph] = {
    "complete": graphs.complete().bind(3, 2),
    "causal": graphs.causal().bind(3),
    "isolated": graphs.edges(torch.tensor([[1, 2, 2], [0, 0, 2]]), 3),
    "ragged": graphs.batch(graphs.complete(), [1, 0, 2]),
}
COPIES = graphs.edges(torch.tensor([[1, 1, 2], [0, 0, 2]]), 3)
KINDS = SCORES + BIASES


def check(graph: Graph, kind: Kind, engine: str) -> None:
    """Output and log-sum-exp (where anything is read) with respect to every leaf."""
    call = make_call(graph, kind, value_width=2)

    def run(*leaves: Tensor) -> tuple[Tensor, ...]:
        nodes, options = rebuild(graph, kind, leaves)
        out, lse = ew.attend_with_lse(*nodes, graph, **options, engine=engine)
        whole = ew.attend(*nodes, graph, **options, engine=engine)
        return out, whole, lse.masked_fill(lse == -torch.inf, 0.0)

    assert torch.autograd.gradcheck(run, call.leaves)


def rebuild(
    graph: Graph, kind: Kind, leaves: tuple[Tensor, ...]
) -> tuple[tuple[Tensor, ...], dict]:
    """The call with other leaves in the places of its own."""
    rest = iter(leaves[3:])
    options = kind.build(lambda *_: next(rest), graph.num_edges, 2, kind.width, leaves[2].shape[-1])
    return leaves[:3], options


@pytest.mark.parametrize("engine", ["dense", "reference"])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_attend(kind: Kind, name: str, engine: str) -> None:
    check(GRAPHS[name], kind, engine)


@pytest.mark.parametrize("graph", [GRAPHS["isolated"], COPIES], ids=["edges", "copies"])
@pytest.mark.parametrize("kind", VECTORS, ids=str)
def test_edge_vectors(kind: Kind, graph: Graph) -> None:
    check(graph, kind, "reference")


@pytest.mark.parametrize("kind", [SCORES[0], BIASES[2], BIASES[9]], ids=str)
def test_a_union_merged_by_the_planner(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = (graphs.window(1) | graphs.hubs([0])).bind(4)
    from edgewise.engines import ENGINES

    for engine in ENGINES.values():  # free: then the parts are never dearer than the whole
        monkeypatch.setattr(type(engine), "seconds", lambda _self, problem: -float(problem.lse))
    check(graph, kind, "auto")


@pytest.mark.parametrize("engine", ["dense", "reference"])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_aggregate(reduce: str, name: str, engine: str) -> None:
    if engine == "dense" and reduce in ("max", "min"):
        pytest.skip("dense refuses, see test_plan")
    graph = GRAPHS[name]
    value = torch.randn(2, graph.num_sources, 2, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(graph.num_edges, 2, dtype=torch.float64, requires_grad=True)

    def run(value: Tensor, weight: Tensor | None = None) -> Tensor:
        return ew.aggregate(value, graph, weight=weight, reduce=reduce, engine=engine)

    assert torch.autograd.gradcheck(run, [value])
    assert torch.autograd.gradcheck(run, [value, weight])


@pytest.mark.parametrize("kind", [SCORES[0], SCORES[6], BIASES[10], VECTORS[0]], ids=str)
def test_edge_steps(kind: Kind) -> None:
    for step in (ew.edge_scores, ew.attention_weights):
        call = make_call(COPIES, kind)

        def run(*leaves: Tensor, step: object = step) -> Tensor:
            nodes, options = rebuild(COPIES, kind, leaves)
            scores = step(*nodes[:2], COPIES, **options)  # type: ignore[operator]
            return scores.masked_fill(scores == -torch.inf, 0.0)

        assert torch.autograd.gradcheck(run, call.leaves)


def test_edge_softmax() -> None:
    scores = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: ew.edge_softmax(s, COPIES), [scores])
