"""A run names the classes of whole graphs: from JSON, tables, files of TU Dortmund and PyG."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("lightning")

import edgewise
from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.kinds.graphs import TU
from edgewise.app.runs import train, with_values
from tests.errors import refused
from tests.places import needs

FAST = {"trainer.accelerator": "cpu", "trainer.epochs": 30, "trainer.save_every": 0}
COUNT, NODES = 40, 4


def graph(number: int) -> dict[str, Any]:
    """Of four nodes; class 7 has a chain and class 3 a star, their nodes' labels and sizes too."""
    star = number % 2
    edges = [[0, 1], [0, 2], [0, 3]] if star else [[0, 1], [1, 2], [2, 3]]
    numbers = [[10.0 * node + 3 * star, float(number)] for node in range(NODES)]
    return {"edges": edges, "node_labels": [5, 9, 9, 5 + 4 * star], "node_attributes": numbers}


def write(folder: Path, count: int, *, labels: bool = True) -> None:
    folder.mkdir(parents=True)
    graphs = [graph(number) for number in range(count)]
    pairs = [
        (NODES * number + a + 1, NODES * number + b + 1)
        for number, one in enumerate(graphs)
        for a, b in one["edges"] + [pair[::-1] for pair in one["edges"]]
    ]
    files = {
        "A": [f"{a}, {b}" for a, b in pairs],
        "graph_indicator": [number + 1 for number in range(count) for _ in range(NODES)],
        "node_labels": [label for one in graphs for label in one["node_labels"]],
        "node_attributes": [", ".join(map(str, r)) for g in graphs for r in g["node_attributes"]],
    }
    if labels:
        files["graph_labels"] = [3 if number % 2 else 7 for number in range(count)]
    for name, lines in files.items():
        (folder / f"TOY_{name}.txt").write_text("\n".join(map(str, lines)) + "\n")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose data are gone."""
    folder = tmp_path_factory.mktemp("graphs")
    write(folder / "TOY" / "raw", COUNT)
    recipe = replace(find("gat-enzymes"), data=TU(name="TOY", folds=4, val=0.2, batch_size=8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEWISE_DATA", str(folder))
        train(with_values(recipe, FAST), folder / "run")
    shutil.rmtree(folder / "TOY")
    return folder / "run"


@pytest.fixture(scope="module")
def run(run_folder: Path) -> edgewise.app.runs.Run:
    return edgewise.load(run_folder)


def probabilities(answers: list[dict[str, Any]]) -> list[float]:
    return [answer["probability"] for answer in answers]


@pytest.mark.slow
def test_answers_are_the_outputs_of_the_model_on_its_data(
    run: edgewise.app.runs.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "TOY" / "raw", COUNT)
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    splits = run.recipe.data.load()
    batch = splits.test.make(torch.arange(splits.test.count))
    with torch.no_grad():
        wanted = run.model(*batch.inputs, **batch.keywords).softmax(-1)
    answers = run.predict([graph(number) for number in range(COUNT)], batch_size=7)
    # The second attribute tells which graph it is.
    given = torch.stack([run.predictor.prepare(graph(n)).x[0, 1] for n in range(COUNT)])
    index = (given - batch.inputs[0][::NODES, 1:2]).abs().argmin(1).tolist()
    found = torch.tensor([answers[i]["probability"] for i in index])
    torch.testing.assert_close(found, wanted.max(-1).values)
    told = [answer["label"] == ("3" if n % 2 else "7") for n, answer in enumerate(answers)]
    assert sum(told) > 0.8 * COUNT


def test_every_form_gives_the_same_answers(run: edgewise.app.runs.Run, tmp_path: Path) -> None:
    graphs = [graph(number) for number in range(6)]
    answers = run.predict(graphs, top=2)
    assert answers[0]["label"] == answers[0]["top"][0]["label"]
    assert sum(one["probability"] for one in answers[0]["top"]) == pytest.approx(1)
    wanted = probabilities(answers)
    assert probabilities(run.predict([json.dumps(one) for one in graphs])) == wanted
    assert run.predict(graphs[0])[0]["probability"] == pytest.approx(wanted[0])
    lines = tmp_path / "new.jsonl"
    lines.write_text("\n".join(json.dumps(one | {"name": f"g{n}"}) for n, one in enumerate(graphs)))
    told = run.predict(lines)
    assert (probabilities(told), told[2]["name"]) == (wanted, "g2")
    frame = pytest.importorskip("pandas").DataFrame(graphs)
    assert run.predict(frame)["probability"].tolist() == wanted
    pytest.importorskip("pyarrow")
    for name, write_table in (("new.csv", frame.to_csv), ("new.parquet", frame.to_parquet)):
        write_table(tmp_path / name)
        assert probabilities(run.predict(tmp_path / name)) == wanted
    again = pytest.importorskip("pandas").read_parquet(tmp_path / "new.parquet")
    assert run.predict(again)["probability"].tolist() == wanted
    write(tmp_path / "set", 6, labels=False)
    told = run.predict(tmp_path / "set")
    assert probabilities(told) == pytest.approx(wanted)
    assert told[3]["input"] == "graph 4"


def test_one_graph_of_a_folder_with_a_strange_node_is_named_and_the_others_are_answered(
    run: edgewise.app.runs.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "set", 6)
    labels = tmp_path / "set" / "TOY_node_labels.txt"
    lines = labels.read_text().splitlines()
    lines[NODES * 2] = "6"  # the first node of the third graph
    labels.write_text("\n".join(lines) + "\n")
    answers = run.predict(tmp_path / "set")
    assert [answer["input"] for answer in answers] == [f"graph {n}" for n in range(1, 7)]
    assert [n for n, answer in enumerate(answers, 1) if "error" in answer] == [3]
    out = tmp_path / "out.csv"
    words = ["predict", str(run.path), "--input", str(tmp_path / "set"), "--out", str(out)]
    assert main(words) == 1
    assert "labels of the training data: 5, 9; got 6, from graph 3" in capsys.readouterr().err
    assert len(out.read_text().splitlines()) == 1 + 6
    kept = labels.read_bytes()
    into = labels.rename(labels.with_suffix(".csv"))
    assert main([*words[:-1], str(into)]) == 2, "it would take the place of an input"
    assert into.read_bytes() == kept


def test_pyg(run: edgewise.app.runs.Run) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pytest.importorskip("torch_geometric.data")
    one = graph(1)
    index = torch.tensor(one["edges"]).T
    kinds = torch.tensor([[label == 5, label == 9] for label in one["node_labels"]]).float()
    x = torch.cat([torch.tensor(one["node_attributes"]), kinds], dim=1)
    data = theirs.Data(x=x, edge_index=torch.cat([index, index.flip(0)], dim=1))
    assert run.predict(data)[0]["probability"] == pytest.approx(
        run.predict([one])[0]["probability"]
    )
    data.x = x[:, 1:]
    assert (
        "4 finite numbers per node, as in training; got 3 numbers"
        in run.predict([data])[0]["error"]
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"edge_index": torch.tensor([[0], [4]])}, "got target 4 at edge 0"),
        ({"edge_index": torch.zeros(3, 2).long()}, "a tensor of shape [2, E]"),
        ({"edge_index": torch.zeros(2, 1)}, "`edge_index`: expected integers"),
        ({"edge_index": None}, "a tensor of shape [2, E]"),
        ({"x": torch.zeros(4)}, "features [N, F] of at least one node"),
        ({"x": torch.zeros(0, 4)}, "features [N, F] of at least one node"),
    ],
)
def test_a_graph_of_pyg_that_is_none_is_named_and_the_others_are_answered(
    run: edgewise.app.runs.Run, changed: dict[str, Any], said: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pytest.importorskip("torch_geometric.data")
    good = {"x": torch.zeros(4, 4), "edge_index": torch.tensor([[0, 1], [1, 0]])}
    wrong, answer = run.predict([theirs.Data(**(good | changed)), theirs.Data(**good)])
    assert said in wrong["error"]
    assert "label" in answer


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"node_labels": [5, 9, 9, 6]},
            "expected labels of the training data: 5, 9",
        ),
        ({"node_labels": [5, 9]}, "as many rows as node_labels"),
        ({"node_labels": [[5, 5], [9, 9], [9, 9], [5, 5]]}, "`node_labels`: expected 1"),
        ({"node_attributes": [[1], [2], [3], [4]]}, "`node_attributes`: expected 2"),
        ({"node_attributes": [[1, 2], [3], [4, 5], [6, 7]]}, "a list of numbers"),
        ({"node_attributes": [[1, float("nan")]] * 4}, "finite numbers"),
        ({"edges": [[0, 4]]}, "pairs of nodes from 0 to 3; got [0, 4]"),
        ({"edges": [[-1, 2]]}, "pairs of nodes from 0 to 3; got [-1, 2]"),
        ({"edges": [[0, 1, 2]]}, "pairs of nodes; got edges of 3 nodes"),
        ({"edges": [[0, 0.5]]}, "integers; got 0.5"),
        ({"edges": "none"}, "a list of numbers"),
        ({"edges": None}, "a list of numbers"),
    ],
)
def test_a_graph_of_another_form_is_named_and_the_others_are_answered(
    run: edgewise.app.runs.Run, changed: dict[str, Any], said: str
) -> None:
    wrong, good = run.predict([graph(1) | changed, graph(1) | {"edges": []}])
    assert said in wrong["error"]
    assert "label" in good


def test_what_is_no_graph(
    run: edgewise.app.runs.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = run.predict(["chain", {"edges": [[0, 1]]}, '{"edges": []}', 5, None])
    said = ["a JSON object", "without node_labels, node_attributes", "node_attributes"]
    said += ["a JSON object; got 5", "a JSON object; got None"]
    assert all(word in a["error"] for word, a in zip(said, answers, strict=True))
    with pytest.raises(MissingDataError, match=r"no file NAME_A\.txt"):
        run.predict(tmp_path)
    write(tmp_path / "set", 4)
    (tmp_path / "set" / "OTHER_A.txt").write_text("1, 2\n")
    with refused(str(tmp_path / "set"), expected="one set", got="OTHER, TOY", remedy="own folder"):
        run.predict(tmp_path / "set")
    (tmp_path / "set" / "OTHER_A.txt").unlink()
    (tmp_path / "set" / "TOY_node_labels.txt").unlink()
    with pytest.raises(ArgumentError, match=r"node_labels.*expected 1"):
        run.predict(tmp_path / "set")
    assert main(["predict", str(run.path), json.dumps(graph(2)), "chain"]) == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3
    assert "a JSON object" in err


@needs("MUTAG")
def test_pygs_own_graphs_of_mutag(tmp_path: Path) -> None:
    recipe = with_values(find("gin-mutag"), FAST | {"trainer.epochs": 3})
    metrics = train(recipe, tmp_path / "run")
    run = edgewise.load(tmp_path / "run")
    splits = recipe.data.load()
    batch = splits.test.make(torch.arange(splits.test.count))
    (x, graphs), members = batch.inputs, batch.keywords["batch"]
    sizes = members.in_degree().tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pytest.importorskip("torch_geometric.data")
    start, asked = 0, []
    for size, own in zip(sizes, x.split(sizes), strict=True):
        index = graphs.edge_index
        inside = (index[0] >= start) & (index[0] < start + size)
        asked.append(theirs.Data(x=own, edge_index=index[:, inside] - start))
        start += size
    told = [int(answer["label"]) for answer in run.predict(asked)]
    wanted = torch.tensor([-1, 1])[batch.target]
    accuracy = float((torch.tensor(told) == wanted).float().mean())
    assert accuracy == pytest.approx(metrics["test/accuracy"], abs=1e-5)


def test_skips_of_circulant_graphs(tmp_path: Path) -> None:
    recipe = with_values(find("gps-csl"), FAST | {"trainer.epochs": 1, "data.copies": 5})
    train(recipe, tmp_path / "run")
    run = edgewise.load(tmp_path / "run")
    ring = [[node, (node + step) % 41] for node in range(41) for step in (1, 5)]
    (answer,) = run.predict([{"edges": ring}])
    batch = recipe.data.load().test.make(torch.arange(10))
    with torch.no_grad():
        wanted = run.model(*batch.inputs, **batch.keywords).softmax(-1)[batch.target == 3]
    assert answer["probability"] == pytest.approx(float(wanted[0].max()), abs=1e-4)
    assert answer["label"] == f"skip {(2, 3, 4, 5, 6, 9, 11, 12, 13, 16)[int(wanted[0].argmax())]}"
    assert "label" in run.predict([{"edges": [], "nodes": 3}])[0]
    strange: list[dict[str, Any]] = [
        {"edges": [[0, 5]], "nodes": 2},
        {"edges": [], "nodes": -3},
        {"edges": [], "nodes": [3, 4]},
        {"edges": [[0, 10**14]]},
    ]
    said = ["at least 6", "at least 1", "an integer of at least 1", "number the nodes from 0"]
    for answer, words in zip(run.predict(strange), said, strict=True):
        assert words in answer["error"]
