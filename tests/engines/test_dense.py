"""The dense engine gives the reference's outputs, log-sum-exps and gradients, in float64."""

from __future__ import annotations

import pytest
import torch

import edgewise as ew
from edgewise import graphs
from edgewise.graphs import Graph
from tests.engines.calls import (
    BATCHED,
    BIASES,
    SCORES,
    Kind,
    assert_same,
    make_call,
    results,
)
from tests.graphs import algebra
from tests.graphs.specification import BIPARTITE, PATTERNS, REPRESENTATIVES, Spec

ragged = graphs.batch(graphs.complete(), [2, 0, 3])
GRAPHS: dict[str, Graph] = {
    "complete": graphs.complete().bind(5),
    "complete bipartite": graphs.complete().bind(3, 4),
    "causal": graphs.causal().bind(5),
    "cached decoding": graphs.causal().bind(2, 5),
    "window": graphs.window(1).bind(5),
    "isolated": graphs.edges(torch.tensor([[1, 3, 3, 0], [0, 0, 2, 2]]), 5),
    "all pairs in another order": graphs.complete().bind(3).transpose(),
    "ragged batch": ragged,
    "ragged causal": graphs.batch(graphs.causal(), [2, 0, 3]),
    "one causal member": graphs.batch(graphs.causal(), [0, 3]),
    "equal batch": graphs.batch(graphs.complete(), [2, 2]),
    "equal causal batch": graphs.batch(graphs.causal(), [2, 2]),
    "ragged cross batch": graphs.batch(graphs.complete(), [2, 0, 1, 1], [1, 2, 0, 3]),
    "members without targets": graphs.batch(graphs.complete(), [0, 0], [3, 1]),
    "members without sources": graphs.batch(graphs.complete(), [3, 1], [0, 0]),
    "batch of nobody": graphs.batch(graphs.complete(), []),
    "membership": graphs.membership([3, 0, 2]),
    "union": (graphs.window(1) | graphs.hubs([0])).bind(5),
    "batch of unions": graphs.batch(graphs.window(1) | graphs.hubs([0]), [3, 2]),
    "no edges": graphs.empty().bind(3),
    "one node": graphs.complete().bind(1),
    "no nodes": graphs.complete().bind(0),
    "no sources": graphs.complete().bind(2, 0),
    "no targets": graphs.complete().bind(0, 2),
}
FEW = [SCORES[0], SCORES[6], BIASES[4], BIASES[10]]


def agree(graph: Graph, kind: Kind, **shapes: object) -> None:
    call = make_call(graph, kind, **shapes)  # type: ignore[arg-type]
    for run in (ew.attend, ew.attend_with_lse):
        dense = results(run, call, graph, engine="dense")
        assert_same(dense, results(run, call, graph, engine="reference"))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("kind", SCORES + BIASES, ids=str)
def test_every_kind_of_call(kind: Kind, name: str) -> None:
    agree(GRAPHS[name], kind, value_width=4)


@pytest.mark.parametrize("spec", PATTERNS, ids=str)
def test_every_pattern(spec: Spec) -> None:
    for sizes in [(n, n) for n in (1, 4, 5, 6, 8)] + BIPARTITE:
        if spec.matrix(*sizes) is not None:
            for kind in FEW:
                agree(spec.bind(*sizes), kind)


@pytest.mark.parametrize("sign", algebra.BINARY)
@pytest.mark.parametrize("left", REPRESENTATIVES, ids=str)
def test_compositions(left: Spec, sign: str) -> None:
    for right in REPRESENTATIVES:
        composed = algebra.compose(left, sign, right)
        if composed.matrix(6, 6) is not None:
            agree(composed.bind(6, 6), BIASES[0])


BATCHES = [
    ((2,), (2,), (2,)),
    ((2, 3), (2, 3), (2, 3)),
    ((2,), (), ()),
    ((), (2,), (2,)),
    ((2,), (2,), ()),
    ((), (), (2,)),
    ((3, 1), (2,), (1, 1)),
    ((0,), (0,), (0,)),
]


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("kind", [*FEW, BIASES[2], SCORES[-1]], ids=str)
@pytest.mark.parametrize("name", ["complete bipartite", "causal", "window", "ragged cross batch"])
def test_leading_dimensions(name: str, kind: Kind, batch: tuple[tuple[int, ...], ...]) -> None:
    agree(GRAPHS[name], kind, batch=batch)


@pytest.mark.parametrize("batch", [((), (), ()), ((2,), (2,), (2,)), ((3, 1), (), (2,))], ids=str)
@pytest.mark.parametrize("kind", BATCHED, ids=str)
@pytest.mark.parametrize("name", ["complete", "causal", "window", "ragged batch"])
def test_edge_terms_of_a_batch(name: str, kind: Kind, batch: tuple[tuple[int, ...], ...]) -> None:
    agree(GRAPHS[name], kind, batch=batch)


@pytest.mark.parametrize(("heads", "value_width"), [(1, 1), (3, 7), (1, 0), (5, 2)])
@pytest.mark.parametrize("width", [1, 3, 7])
def test_odd_widths(width: int, heads: int, value_width: int) -> None:
    for name in ("complete", "window", "ragged batch"):
        kind = Kind("dot", width=width)
        agree(GRAPHS[name], kind, heads=heads, value_width=value_width)


@pytest.mark.parametrize("engine", ["dense", "reference"])
def test_inputs_need_not_be_contiguous(engine: str) -> None:
    call = make_call(GRAPHS["window"], BIASES[0], batch=((2,), (2,), (2,)))
    strange = [x.detach().movedim(0, -1).contiguous().movedim(-1, 0) for x in call.leaves]
    assert not any(x.is_contiguous() for x in strange)
    out = ew.attend(*call.nodes, GRAPHS["window"], **call.options, engine=engine)
    again = ew.attend(*strange[:3], GRAPHS["window"], bias=strange[3], engine=engine)
    torch.testing.assert_close(out, again, rtol=0, atol=1e-14)


@pytest.mark.parametrize("engine", ["dense", "reference"])
@pytest.mark.parametrize("kind", [SCORES[0], BIASES[0], BIASES[7], SCORES[6]], ids=str)
def test_who_reads_nothing_gets_zeros(kind: Kind, engine: str) -> None:
    graph = GRAPHS["isolated"]
    call = make_call(graph, kind)
    (out, lse), gradients = results(ew.attend_with_lse, call, graph, engine=engine)
    alone, unread = graph.in_degree() == 0, graph.out_degree() == 0
    assert alone.sum() == 3
    for given in (out, results(ew.attend, call, graph, engine=engine)[0][0]):
        assert (given[alone] == 0).all()
    assert (lse[alone] == -torch.inf).all()
    assert (gradients[0][alone] == 0).all()
    assert (gradients[1][unread] == 0).all()
    assert (gradients[2][unread] == 0).all()


def test_dense_refuses_copies_of_an_edge() -> None:
    graph = graphs.edges(torch.tensor([[0, 0], [1, 1]]), 2)
    for copies in (graph, graphs.virtual(graph).bind(3), graphs.batch([graph, graph])):
        call = make_call(copies, SCORES[0])
        with pytest.raises(ew.ArgumentError, match="more than once"):
            ew.attend(*call.nodes, copies, engine="dense")
        ew.attend(*call.nodes, copies, engine="auto")
