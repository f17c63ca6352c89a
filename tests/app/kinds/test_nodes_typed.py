"""Nodes of graphs with relations: tables with a relation column, N-Triples, AIFB, reasons."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning")
from edgewise import graphs, models
from edgewise.app.cli import main
from edgewise.app.files.edges import read_edges
from edgewise.app.files.triples import read_triples
from edgewise.app.kinds.nodes import Aifb, NodeFiles
from edgewise.app.kinds.nodes.baseline import counts_of_neighbours
from edgewise.app.train.sampled import SampledSplit
from tests.errors import refused
from tests.places import needs

PEOPLE = 60


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """People whose class is the relation that joins them with one page; the ids tell nothing."""
    rows = [(f"p{i}", ("fan", "critic")[i % 2], i % 5) for i in range(PEOPLE)]
    lines = [f"{name},{label},{age}" for name, label, age in rows]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,label,age", *lines, "page,,2"]) + "\n")
    edges = [f"{name},{'likes' if label == 'fan' else 'hates'},page" for name, label, _ in rows]
    (tmp_path / "edges.csv").write_text("\n".join(["source,relation,target", *edges]) + "\n")
    kinds = [f"{name},{label},{age},person" for name, label, age in rows]
    typed = ["id,label,age,kind", *kinds, "page,,2,page"]
    (tmp_path / "typed.csv").write_text("\n".join(typed) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def options(nodes: str = "nodes.csv") -> list[str]:
    return ["--data.nodes", nodes, "--data.edges", "edges.csv", "--data.relation", "relation"]


def accuracy(run: Path) -> float:
    return json.loads((run / "metrics.json").read_text())["test/accuracy"]


def test_relations_are_learned_predicted_and_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "nodes-typed", *options(), "--out", "run", "--trainer.epochs", "60"]) == 0
    assert accuracy(folder / "run") == 1
    capsys.readouterr()
    assert main(["predict", "run", "p0", "p1", "--why", "1"]) == 0
    shown = capsys.readouterr().out
    assert "fan" in shown
    assert "critic" in shown
    assert "page (likes)" in shown
    assert "page (hates)" in shown
    # A new graph has its relations in another order, and one more person.
    new = folder / "new"
    new.mkdir()
    (new / "nodes.csv").write_text("id,age\nx,1\ny,1\npage,2\n")
    (new / "edges.csv").write_text("source,relation,target\nx,likes,page\ny,hates,page\n")
    assert main(["predict", "run", "--input", "new", "--out", "answers.csv"]) == 0
    answers = (folder / "answers.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in answers[1:3]] == [["x", "fan"], ["y", "critic"]]
    (new / "edges.csv").write_text("source,relation,target\nx,loves,page\ny,hates,page\n")
    assert main(["predict", "run", "--input", "new"]) == 2
    assert "relation" in capsys.readouterr().err


def test_node_types_are_read_for_hgt(folder: Path) -> None:
    typed = [*options("typed.csv"), "--data.node_type", "kind", "--out", "run"]
    assert main(["train", "nodes-typed", *typed, "--model", "hgt", "--trainer.epochs", "40"]) == 0
    assert accuracy(folder / "run") == 1


def test_a_model_without_relations_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "nodes", *options(), "--out", str(folder / "run")]) == 2
    assert "graphsage, which has no relations" in capsys.readouterr().err


def test_edges_of_a_table_are_typed(folder: Path) -> None:
    splits = NodeFiles(nodes="nodes.csv", edges="edges.csv", relation="relation").load()
    assert splits.model_arguments["relations"] == 4
    graph = splits.train.make(torch.zeros(1, dtype=torch.long)).inputs[1]
    assert [name for _, name, _ in graph.relations] == ["hates", "likes", "rev_hates", "rev_likes"]
    assert graph.edge_type.bincount().tolist() == [30] * 4
    hates = graph.edge_index[:, graph.edge_type == 0]
    assert hates.tolist() == [list(range(1, PEOPLE, 2)), [PEOPLE] * 30]
    (folder / "edges.csv").write_text("source,relation,target\np0,likes,page\np1, ,page\n")
    with refused("edges.csv", expected="a relation for data.relation", got="p1", remedy="line"):
        read_edges("edges.csv", names=True, relation="relation")


TRIPLES = """# A comment.
<http://a.org/p#x> <http://a.org/author> <http://a.org/y> .
_:b <http://a.org/title> "A \\"title\\" with <x> ."@en . # Another.

<http://a.org/y> <http://a.org/year> "1999"^^<http://a.org/int> .
"""


def test_n_triples(tmp_path: Path) -> None:
    path = tmp_path / "graph.nt.gz"
    with gzip.open(path, "wt") as file:
        file.write(TRIPLES)
    assert read_triples(path)[1] == ("_:b", "http://a.org/title", '"A \\"title\\" with <x> ."@en')
    edges = read_edges(path)
    assert edges.relations == ("http://a.org/author", "http://a.org/title", "http://a.org/year")
    assert list(edges.ids)[int(edges.pairs[0, 0])] == "http://a.org/p#x"
    plain = tmp_path / "graph.nt"
    plain.write_text(TRIPLES + "<http://a.org/y> <http://a.org/year> .\n")
    with refused(str(plain), expected="<subject>", got="year", remedy="line"):
        read_triples(plain)
    plain.write_text(r"<http://a.org/caf\u00e9> <http://a.org/year> _:b ." + "\n")
    assert read_triples(plain) == [(r"http://a.org/caf\u00e9", "http://a.org/year", "_:b")]
    plain.write_text("_:a" * 20_000 + "\n")
    with refused(str(plain), expected="<subject>", got="_:a", remedy="line"):
        read_triples(plain)  # At once: with backtracking, 1,000 times as short a line took 15 s.
    plain.write_text("# Nothing.\n")
    with refused(str(plain), expected="at least one edge", got="none", remedy="edge"):
        read_edges(plain)


def test_counts_of_neighbours() -> None:
    pairs = {("a", "r", "a"): torch.tensor([[0, 0, 1], [2, 2, 0]]),
             ("a", "s", "a"): torch.tensor([[0], [1]])}  # fmt: skip
    counts = counts_of_neighbours(graphs.typed(pairs, {"a": 3})).toarray()
    assert counts.tolist() == [[0, 1, 0, 1, 0], [0, 0, 1, 0, 1], [2, 0, 0, 2, 0]]


@needs("AIFB")
def test_aifb() -> None:
    splits = Aifb().load()
    assert splits.model_arguments["relations"] == 2 * 43
    assert splits.model_arguments["out_width"] == 4
    sizes = [len(s.make(torch.zeros(1, dtype=torch.long)).target) for s in
             (splits.train, splits.val, splits.test)]  # fmt: skip
    assert sizes == [112, 28, 36]
    graph = splits.train.make(torch.zeros(1, dtype=torch.long)).inputs[1]
    names = {name for _, name, _ in graph.relations}
    assert "author" in names
    assert not names & {"employs", "affiliation", "rev_employs", "rev_affiliation"}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["rgcn", "hgt"])
def test_sampled_training_with_all_neighbours_is_that_of_the_whole_graph(name: str) -> None:
    data = NodeFiles(
        nodes="typed.csv",
        edges="edges.csv",
        relation="relation",
        node_type="kind" if name == "hgt" else "",
        features=("age",),
        fanouts=(-1, -1),
    )
    splits = data.load()
    model = getattr(models, name)(**splits.model_arguments).eval()
    index = torch.arange(5, 20)
    whole = splits.train.make(index)
    assert isinstance(splits.train, SampledSplit)
    sampled = splits.train.sample(index, torch.Generator())
    expected, outputs = (b.select_outputs(b.outputs(model)) for b in (whole, sampled))
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-5)
    assert sampled.inputs[1].relations == whole.inputs[1].relations
    few = replace(data, fanouts=(1, 1)).load().train
    assert isinstance(few, SampledSplit)
    assert few.sample(index, torch.Generator()).inputs[1].in_degree().max() == 1
