"""Centralities are NetworkX's; the influence on a model is the change without a member."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("networkx")
pytest.importorskip("scipy")
import networkx

from edgewise import graphs
from edgewise.errors import ArgumentError
from edgewise.explain.influence import Influence, _norms, centralities, influence
from edgewise.layers import MultiHeadAttention


def test_centralities_are_those_of_networkx() -> None:
    network = networkx.disjoint_union(networkx.karate_club_graph(), networkx.path_graph(4))
    index = torch.tensor(list(network.edges)).T
    found, notes = centralities(graphs.edges(index, len(network)))
    assert not notes
    expected = {
        "degree": dict(network.degree),
        "closeness": networkx.closeness_centrality(network),
        "betweenness": networkx.betweenness_centrality(network),
        "PageRank": networkx.pagerank(network, weight=None),
        "eigenvector": networkx.eigenvector_centrality(network, max_iter=1000),
    }
    for name, values in expected.items():
        wanted = torch.tensor([float(values[node]) for node in range(len(network))])
        torch.testing.assert_close(found[name].float(), wanted, atol=1e-4, rtol=1e-3, msg=name)


def test_betweenness_of_a_large_graph_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["edgewise.explain.influence"], "PAIRS", 500)
    network = networkx.karate_club_graph()
    index = torch.tensor(list(network.edges)).T
    found, notes = centralities(graphs.edges(index, 34))
    assert notes == {"betweenness": "estimated from 6 of 34 sources"}
    assert found["betweenness"].max() > 0


def test_the_estimate_is_close_to_the_exact_change() -> None:
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(8, 2), torch.randn(30, 8)
    graph = graphs.edges(torch.randint(30, (2, 90)), 30)
    labels = [str(node) for node in range(30)]

    def outputs() -> torch.Tensor:
        out: torch.Tensor = layer(x, graph)
        return out

    found = _norms(outputs, labels, 0)
    exact = []
    with torch.no_grad():
        for node in range(30):
            kept = (graph.source != node) | (graph.target == node)
            fewer = graphs.edges(graph.edge_index[:, kept], 30)
            exact.append((layer(x, fewer) - outputs()).norm())
    both = torch.stack([found.float(), torch.stack(exact)])
    assert float(both.corrcoef()[0, 1]) > 0.9


def measured() -> Influence:
    values = {"model": [3.0, 1.0, 2.0, 0.5], "PageRank": [0.1, 0.9, 0.2, 0.3]}
    return Influence(list("abcd"), {n: torch.tensor(v) for n, v in values.items()}, {})


def test_a_ranking_has_the_ranks_of_all_measures() -> None:
    first, second = measured().ranking(top=2)
    assert first == {"id": "a", "influence": 3.0, "model": 1, "PageRank": 4}
    assert second["id"] == "c"
    up, down = measured().disagreements(top=1)
    assert (up["id"], down["id"]) == ("a", "b")
    assert measured().correlations()["model", "PageRank"] == pytest.approx(-0.8)


def test_a_figure_has_a_panel_for_each_centrality() -> None:
    pytest.importorskip("matplotlib")
    figure = measured().draw()
    assert [axes.get_xlabel() for axes in figure.axes] == ["PageRank"]


def test_a_run_without_a_graph_is_refused() -> None:
    recipe = SimpleNamespace(name="sst2")
    predictor = SimpleNamespace(preprocessing=SimpleNamespace(values={}))
    run = SimpleNamespace(recipe=recipe, predictor=predictor, model=None)
    with pytest.raises(ArgumentError, match="sst2"):
        influence(run)  # type: ignore[arg-type]
