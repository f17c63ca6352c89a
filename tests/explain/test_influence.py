"""Centralities are NetworkX's; the influence on a model is the change without a member."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("networkx")
pytest.importorskip("scipy")
import networkx

from edgewise import graphs
from edgewise._utils.errors import ArgumentError
from edgewise.app.cli import main
from edgewise.app.explain import Influence, changes, influence, removals
from edgewise.app.explain.influence import _changed_norms, _features, _norms
from edgewise.app.kinds.nodes.data import saved_graph
from edgewise.app.predict import Predictor
from edgewise.app.runs import Run
from edgewise.explain import centralities
from edgewise.layers import MultiHeadAttention

RunOf = Callable[[str], Run]


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


@pytest.mark.parametrize("count", [0, 1, 3])
def test_nodes_without_edges_have_no_centrality(count: int) -> None:
    values, _ = centralities(graphs.edges(torch.zeros(2, 0, dtype=torch.long), count))
    ranks = values.pop("PageRank")
    assert ranks.tolist() == pytest.approx([1 / count] * count if count else [])
    assert all(value.tolist() == [0.0] * count for value in values.values())


def test_betweenness_of_a_large_graph_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["edgewise.explain.centrality"], "MAX_PATH_STEPS", 1000)
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
            others = torch.arange(30) != node
            exact.append((layer(x, fewer) - outputs())[others].norm())
    both = torch.stack([found.float(), torch.stack(exact)])
    assert float(both.corrcoef()[0, 1]) > 0.9


def test_a_member_moves_the_outputs_of_the_others(run_of: RunOf) -> None:
    run = run_of("nodes")
    kept = saved_graph(run.predictor.preprocessing.values)
    found = removals(run, torch.tensor([3, 21]))
    with torch.no_grad():
        whole = run.model(kept.x, kept.graph).softmax(-1)
        for member, value in zip([3, 21], found, strict=True):
            left = (kept.graph.edge_index[0] != member).nonzero()[:, 0]
            fewer = graphs.edges(kept.graph.edge_index[:, left], len(kept.x))
            moved = run.model(kept.x, fewer).softmax(-1) - whole
            others = torch.arange(len(moved)) != member
            torch.testing.assert_close(value, moved[others].norm())
    found = changes(run, torch.tensor([3, 21]))
    with torch.no_grad():
        whole = run.model(kept.x, kept.graph).softmax(-1)
        for member, value in zip([3, 21], found, strict=True):
            x = kept.x.clone()
            x[member] = kept.x.mean(0)
            moved = run.model(x, kept.graph).softmax(-1) - whole
            others = torch.arange(len(x)) != member
            torch.testing.assert_close(value, moved[others].norm())
    assert kept.x.equal(saved_graph(run.predictor.preprocessing.values).x)


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("kind", ["links", "interactions"])
def test_changes_are_estimated_to_first_order(
    kind: str, run_of: RunOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["edgewise.app.explain.influence"], "PROBES", 400)
    run = run_of(kind)
    x, _ = _features(run)
    with torch.no_grad():
        x.copy_(x.mean(0) + 1e-2 * (x - x.mean(0)))  # where first order is accurate
    exact = changes(run, torch.arange(len(x)))
    assert bool((exact > 0).any())
    estimate = _changed_norms(run, 0).float()
    assert float(torch.stack([estimate, exact]).corrcoef()[0, 1]) > 0.95


@pytest.mark.slow
def test_the_command_ranks_by_removal_and_by_change(
    run_of: RunOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run, rankings = run_of("nodes"), []
    for by in ("removed", "changed"):
        picture = tmp_path / f"{by}.png"
        given = ["influence", str(run.path), "--by", by, "--top", "3", "--draw", str(picture)]
        assert main(given) == 0
        lines = capsys.readouterr().out.splitlines()
        found = influence(run, by=by)  # type: ignore[arg-type]
        assert lines[0].startswith("nodes with the largest influence on the model")
        assert lines[1].startswith("(influence: change of the outputs with")
        rows = [line.split()[:2] for line in lines[4:7]]
        assert "nodes that the model ranks much lower than PageRank:" in lines
        expected = [[row["id"], f"{row['influence']:.3g}"] for row in found.ranking(top=3)]
        assert rows == expected
        rankings.append(rows)
        assert picture.exists()
    assert rankings[0] != rankings[1]
    with pytest.raises(ArgumentError, match="removed"):
        influence(run, by="gone")  # type: ignore[arg-type]


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
    assert figure.axes[0].get_ylabel() == "change of the outputs\nwithout the node"


def test_names_of_a_figure_are_whole_and_apart() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    few = measured()
    labels = ["a member with a long name at the right end", *few.labels[1:]]
    values = few.measures | {"eigenvector": torch.tensor([0.5, 1e-17, 0.1, 1e-17])}
    figure = Influence(labels, values, {}, "changed").draw()
    FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["a member with a long name at the right …", "c", "b"]
    box = legend.get_tightbbox()
    assert 0 <= box.x0 <= box.x1 <= figure.bbox.width
    assert not any(box.overlaps(axes.get_tightbbox()) for axes in figure.axes)
    label = figure.axes[0].yaxis.label.get_window_extent()
    assert 0 <= label.y0 <= label.y1 <= figure.bbox.height
    assert figure.axes[1].collections[0].get_offsets().shape == (2, 2)  # without rounding errors
    assert figure.axes[0].get_ylabel() == "change of the outputs\nwith mean features of the node"


@pytest.mark.slow
@pytest.mark.parametrize("high", [1.02, 1.5, 4.0, 12.0, 60.0, 1e3, 1e7])
def test_labels_of_ticks_do_not_overlap(high: float) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    names = ("model", "degree", "closeness", "betweenness", "eigenvector", "PageRank")
    for low in (0.0012, 0.034, 0.97, 3.0):
        values = torch.logspace(0, math.log10(high), 40) * low
        figure = Influence([str(i) for i in range(40)], dict.fromkeys(names, values), {}).draw()
        FigureCanvasAgg(figure).draw()
        for axis in (figure.axes[0].yaxis, *(axes.xaxis for axes in figure.axes)):
            start, end = axis.get_view_interval()
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            labels = [tick.label1 for tick in ticks if start <= tick.get_loc() <= end]
            boxes = [label.get_window_extent() for label in labels if label.get_text()]
            assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
            assert 2 <= len(boxes) <= 6


def test_a_run_without_a_graph_is_refused() -> None:
    predictor = SimpleNamespace(recipe=SimpleNamespace(name="sst2"))
    predictor.graph_outputs = partial(Predictor.graph_outputs, predictor)  # type: ignore[arg-type]
    run = SimpleNamespace(recipe=predictor.recipe, predictor=predictor, model=None)
    with pytest.raises(ArgumentError, match="sst2"):
        influence(run)  # type: ignore[arg-type]
