"""The reference engine against explicit loops over nodes and edges, in float64."""

from __future__ import annotations

import pytest
import torch

import edgewise as ew
from edgewise import graphs
from edgewise.graphs import Graph
from tests.engines import oracle
from tests.engines.calls import BIASES, SCORES, VECTORS, Kind, assert_same, make_call, results

GRAPHS: dict[str, Graph] = {
    "copies and isolated": graphs.edges(
        torch.tensor([[0, 3, 0, 1, 1, 4, 0, 2], [1, 1, 1, 0, 3, 4, 4, 1]]), 6
    ),
    "bipartite": graphs.edges(torch.tensor([[5, 0, 3, 3, 2], [1, 0, 0, 2, 2]]), (6, 4)),
    "union": (graphs.window(1) | graphs.hubs([0, -1])).bind(5),
    "one node": graphs.complete().bind(1),
    "one node alone": graphs.empty().bind(1),
    "no nodes": graphs.complete().bind(0),
    "no sources": graphs.complete().bind(2, 0),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("kind", SCORES + BIASES + VECTORS, ids=str)
def test_reference_is_the_formula(kind: Kind, name: str) -> None:
    call = make_call(GRAPHS[name], kind, value_width=2)
    ours = results(ew.attend_with_lse, call, GRAPHS[name], engine="reference")
    assert_same(ours, results(oracle.attend_with_lse, call, GRAPHS[name]), 1e-13)


@pytest.mark.parametrize("kind", VECTORS[2:], ids=str)
def test_projected_edge_vectors_equal_their_expansion(kind: Kind) -> None:
    graph = GRAPHS["copies and isolated"]
    call = make_call(graph, kind)
    expanded = {
        name: term.expand() if isinstance(term, ew.Projected) else term
        for name, term in call.options.items()
    }
    ours = results(ew.attend_with_lse, call, graph, engine="reference")
    call.options = expanded
    assert_same(ours, results(ew.attend_with_lse, call, graph, engine="reference"))


@pytest.mark.parametrize("kind", [SCORES[0], BIASES[0], VECTORS[2]], ids=str)
def test_a_batch_is_its_members(kind: Kind) -> None:
    graph = GRAPHS["copies and isolated"]
    call = make_call(graph, kind, batch=((3, 2), (3, 2), (3, 2)))
    query, key, value = call.nodes
    out, lse = ew.attend_with_lse(query, key, value, graph, **call.options, engine="reference")
    for a in range(3):
        for b in range(2):
            one = [x[a, b] for x in (query, key, value)]
            alone = oracle.attend_with_lse(*one, graph, **call.options)
            torch.testing.assert_close(out[a, b], alone[0], rtol=0, atol=1e-13)
            torch.testing.assert_close(lse[a, b], alone[1], rtol=0, atol=1e-13)


def test_large_scores_do_not_overflow() -> None:
    graph = graphs.complete().bind(4)
    query = torch.full((4, 1, 2), 500.0, dtype=torch.float64)
    for engine in ("reference", "dense"):
        out, lse = ew.attend_with_lse(query, query, query, graph, engine=engine)
        assert out.equal(query)
        assert lse.isfinite().all()
        out, lse = ew.attend_with_lse(query, -query, query, graph, engine=engine)
        assert out.equal(query)
        assert lse.isfinite().all()
