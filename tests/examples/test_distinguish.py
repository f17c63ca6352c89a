"""Pairs of graphs by encodings, fresh models and runs: exactly the known table."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from edgewise_examples import distinguish
from edgewise_examples import hard_pairs as looks
from torch import Tensor, nn

from edgewise import graphs
from edgewise.app.kinds import RECIPES
from edgewise.app.runs import train, with_values
from tests.errors import refused

FAR = {"shortest paths"}
FINE = {"resistances", "Laplacian spectrum", "20-step walks"}
TABLE = {
    "C6, 2 C3": FAR | FINE,
    "decalin, bicyclopentyl": FAR | FINE,
    "CSL(8, 2), CSL(8, 3)": FINE,
    "dodecahedron, Desargues": FINE,
    "rook 4 × 4, Shrikhande": set(),
}
SAME_AS = {"gin": "WL colours", "graphormer": "shortest paths", "gps": "20-step walks"}


@pytest.mark.parametrize("pair", TABLE)
@pytest.mark.parametrize("look", looks.LOOKS)
def test_an_encoding_tells_apart_what_it_is_known_to(pair: str, look: str) -> None:
    one, other = (drawn.graph for drawn in looks.hard_pairs()[pair])
    assert looks.tells_apart(look, one, other) == (look in TABLE[pair])
    order = torch.randperm(one.num_targets)
    moved = graphs.edges(order[one.edge_index], one.num_targets)
    assert not looks.tells_apart(look, one, moved)


def test_the_pairs_are_what_they_are_called() -> None:
    nx = pytest.importorskip("networkx")
    two_rings = nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
    two_rings.add_edge(0, 5)
    expected = {
        "C6, 2 C3": (nx.cycle_graph(6), nx.disjoint_union(*[nx.cycle_graph(3)] * 2)),
        "decalin, bicyclopentyl": (nx.Graph([*nx.cycle_graph(10).edges, (0, 5)]), two_rings),
        "CSL(8, 2), CSL(8, 3)": tuple(nx.circulant_graph(8, [1, skip]) for skip in (2, 3)),
        "dodecahedron, Desargues": (nx.dodecahedral_graph(), nx.desargues_graph()),
    }
    for title, pair in looks.hard_pairs().items():
        found = [nx.Graph(drawn.graph.edge_index.T.tolist()) for drawn in pair]
        assert not nx.is_isomorphic(*found), title
        if title in expected:
            assert all(map(nx.is_isomorphic, found, expected[title])), title
            continue
        for one in found:  # strongly regular with parameters (16, 6, 2, 2)
            common = {
                len(list(nx.common_neighbors(one, *pair))) for pair in nx.complete_graph(16).edges
            }
            assert ({d for _, d in one.degree}, common) == ({6}, {2})
        fours = [sum(len(c) == 4 for c in nx.find_cliques(one)) for one in found]
        assert fours == [8, 0]  # rows and columns; none


@pytest.mark.slow
def test_models_tell_apart_what_their_codes_do() -> None:
    found = distinguish.distinguish(list(SAME_AS))
    for pair, row in found.items():
        for model, look in SAME_AS.items():
            assert row[f"{model}, fresh"] == row[look], (pair, model)


class Leak(nn.Module):
    """Looks at the number of the first node's neighbour."""

    def forward(self, x: Tensor, graph: graphs.Graph, batch: list[int]) -> Tensor:
        assert batch == [len(x)]
        return graph.source[graph.target == 0].sum().double().view(1)


class Rounding(nn.Module):
    """Differs by less than the last digits."""

    def forward(self, x: Tensor, graph: graphs.Graph, batch: list[int]) -> Tensor:
        triangles = (graph.dense().double().matrix_power(3)).trace() / batch[0]
        return 1 + 1e-13 * triangles.view(1).to(x)


def test_leakage_and_rounding_are_no_success() -> None:
    one, other = (drawn.graph for drawn in looks.hard_pairs()["C6, 2 C3"])
    assert distinguish.verdict(distinguish.Model(Leak(), 1), one, other) == "unsure"
    assert distinguish.verdict(distinguish.Model(Rounding(), 1), one, other) == "alike"


@pytest.mark.slow
def test_the_command_prints_draws_and_reads_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EDGEWISE_CACHE", str(tmp_path / "cache"))
    run, picture = tmp_path / "run", tmp_path / "pairs.png"
    short = {"trainer.epochs": 1, "data.copies": 5, "data.batch_size": 25}
    train(with_values(RECIPES["gin-csl"], short), run)
    capsys.readouterr()
    assert distinguish.main(["--models", "gps", "--runs", str(run), "--draw", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    marks = {line.rsplit(maxsplit=5)[0]: line.split()[-5:] for line in lines[2:9]}
    assert marks["20-step walks"] == marks["gps, fresh"] == ["✓", "✓", "✓", "✓", "–"]
    assert marks[str(run)] == ["–"] * 5
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_what_is_no_model_of_graphs_is_refused(tmp_path: Path) -> None:
    for name in ("gpt", "tree_lstm"):
        with refused("model", expected="graph model: ", got=name, remedy="one of these"):
            distinguish.distinguish([name])
    with refused(
        "model", expected="graphormer or one of", got="'graphormr'", remedy="mean 'graphormer'"
    ):
        distinguish.distinguish(["graphormr"])
    train(with_values(RECIPES["digits"], {"trainer.epochs": 1, "model.depth": 1}), tmp_path / "run")
    with refused(str(tmp_path / "run"), expected="gin", got="vit", remedy="one of these"):
        distinguish.distinguish(None, [tmp_path / "run"])
