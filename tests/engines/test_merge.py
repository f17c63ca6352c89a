"""The merge law: attention over a disjoint union is the merge of its parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines import ENGINES
from edgewise.graphs import Graph
from tests.engines.calls import BIASES, SCORES, VECTORS, Kind, assert_same, make_call, results

UNIONS: dict[str, Graph] = {
    "BigBird": (graphs.window(1) | graphs.hubs([0]) | graphs.random(2)).bind(8),
    "half empty": (graphs.hubs([2]) - graphs.window(0) | graphs.window(0)).bind(6),
    "class token": graphs.virtual(graphs.grid(2, 2)).bind(5),
    "batch": graphs.batch(graphs.window(1) | graphs.hubs([0]), [3, 1, 4]),
    "two columns": graphs.hubs([0, 3]).bind(5),
    "decoding": (graphs.window(1) | graphs.hubs([0, 2])).bind(2, 7),
}


def merged(query: Tensor, key: Tensor, value: Tensor, graph: Graph, **options: Any) -> Any:
    """Each part by itself, on the engines in turn, then the merge."""
    first, outs = 0, []
    for number, part in enumerate(graph.parts):
        stop = first + part.num_edges
        share = {name: edge_share(term, first, stop) for name, term in options.items()}
        choices = ew.explain_plan(query, key, value, part, **share).choices
        can = sorted(choice.engine for choice in choices if not choice.reasons)
        engine = can[number % len(can)]
        outs.append(ew.attend_with_lse(query, key, value, part, **share, engine=engine))
        first = stop
    return ew.merge_attention(outs)


def edge_share(term: Any, first: int, stop: int) -> Any:
    if isinstance(term, Tensor):
        return term[first:stop]
    if isinstance(term, (ew.TableBias, ew.Projected)):
        return term.edges(slice(first, stop))
    return term


@pytest.mark.parametrize("name", UNIONS)
@pytest.mark.parametrize("kind", SCORES[:1] + SCORES[6:7] + BIASES + VECTORS, ids=str)
def test_merge_of_the_parts_is_the_whole(kind: Kind, name: str) -> None:
    graph = UNIONS[name]
    assert len(graph.parts) > 1
    call = make_call(graph, kind)
    whole = results(ew.attend_with_lse, call, graph, engine="reference")
    assert_same(results(merged, call, graph), whole)


@pytest.mark.parametrize("name", UNIONS)
@pytest.mark.parametrize("kind", SCORES[:1] + SCORES[6:7] + BIASES + VECTORS, ids=str)
def test_auto_runs_the_parts_where_that_is_faster(
    kind: Kind, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, call = UNIONS[name], make_call(UNIONS[name], kind)
    whole = results(ew.attend, call, graph, engine="reference")
    for engine in ENGINES.values():
        monkeypatch.setattr(type(engine), "seconds", lambda _, problem: -float(problem.lse))
        monkeypatch.setattr(type(engine), "attend", None)  # the whole is not run
    assert_same(results(ew.attend, call, graph), whole)


def test_graphs_with_projections_of_their_own() -> None:
    """Longformer's hubs have keys of their own: the softmax runs over both kinds of edges."""
    near, far = graphs.window(1).bind(6), (graphs.hubs([0]) - graphs.window(1)).bind(6)
    query, value = torch.randn(2, 6, 2, 3, dtype=torch.float64)
    keys = torch.randn(2, 6, 2, 3, dtype=torch.float64)
    parts = [ew.attend_with_lse(query, k, value, g) for k, g in zip(keys, (near, far), strict=True)]
    scores = torch.full((6, 6, 2), -torch.inf, dtype=torch.float64)
    for key, graph in zip(keys, (near, far), strict=True):
        source, target = graph.edge_index
        scores[target, source] = ew.edge_scores(query, key, graph)
    expected = torch.einsum("ijh,jhd->ihd", scores.softmax(1), value)
    out, lse = ew.merge_attention(parts)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(lse, scores.logsumexp(1), rtol=0, atol=1e-14)


def test_merging_empty_parts() -> None:
    nothing = (torch.zeros(2, 1, 3, requires_grad=True), torch.full((2, 1), -torch.inf))
    out, lse = ew.merge_attention([nothing, nothing])
    assert (out == 0).all()
    assert (lse == -torch.inf).all()
    (gradient,) = torch.autograd.grad(out.sum(), nothing[0])
    assert gradient.isfinite().all()
    only = (torch.randn(2, 1, 3), torch.randn(2, 1))
    for out, lse in (ew.merge_attention([only, nothing]), ew.merge_attention([only])):
        torch.testing.assert_close(out, only[0])
        torch.testing.assert_close(lse, only[1])
