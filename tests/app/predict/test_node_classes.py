"""A run names the classes of nodes: of its own graph, and of a new one of the same form."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import edgewise
from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.kinds.nodes import NodeFiles
from edgewise.app.runs import train, with_values
from tests.errors import refused
from tests.places import needs

pytest.importorskip("lightning")

FAST = {"trainer.accelerator": "cpu", "trainer.epochs": 40, "model.width": 16}


def write(folder: Path, count: int, seed: int, *, labels: bool = True) -> None:
    """Two groups, told by a number with much noise and by who cites whom."""
    random = np.random.default_rng(seed)
    rows = [f"p{i},{'law' if i % 2 else 'art'},{i % 2 + random.normal():.3f}" for i in range(count)]
    head = "paper,topic,length"
    if not labels:
        rows = [",".join(row.split(",")[::2]) for row in rows]
        head = "paper,length"
    (folder / "nodes.csv").write_text("\n".join([head, *rows]))
    pairs = [(i, (i + 2 * int(random.integers(1, count // 2))) % count) for i in range(count)] * 2
    edges = "\n".join(f"p{a},p{b}" for a, b in pairs)
    (folder / "edges.csv").write_text("citing,cited\n" + edges)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A run, moved to another place, and its data gone."""
    folder = tmp_path_factory.mktemp("nodes")
    write(folder, 80, 0)
    data = NodeFiles(
        nodes=str(folder / "nodes.csv"), edges=str(folder / "edges.csv"), target="topic"
    )
    train(with_values(replace(find("nodes"), data=data), FAST), folder / "run")
    shutil.copy(folder / "nodes.csv", folder / "kept.csv")
    for name in ("nodes.csv", "edges.csv"):
        (folder / name).unlink()
    shutil.move(folder / "run", folder / "moved")
    return folder / "moved"


def right(answers) -> float:
    told = [a["label"] == ("law" if int(a["input"][1:]) % 2 else "art") for a in answers]
    return sum(told) / len(told)


def test_nodes_of_the_graph(run_folder):
    run = edgewise.load(run_folder)
    answers = run.predict([f"p{i}" for i in range(80)], top=2)
    assert right(answers) > 0.8
    first = answers[0]
    assert first["label"] == first["top"][0]["label"]
    assert sum(one["probability"] for one in first["top"]) == pytest.approx(1)
    wrong, good = run.predict(["p99", "p9"])
    assert "one of the 80 nodes" in wrong["error"]
    assert "did you mean" in wrong["error"]
    assert "label" in good


def test_a_table_of_ids(run_folder, tmp_path):
    out = tmp_path / "out.csv"
    asked = run_folder.parent / "kept.csv"
    assert main(["predict", str(run_folder), "--input", str(asked), "--out", str(out)]) == 0
    lines = out.read_text().splitlines()
    assert lines[0] == "paper,topic,length,label,probability"
    assert len(lines) == 81


def test_a_new_graph(run_folder, tmp_path):
    write(tmp_path, 60, 1, labels=False)
    run = edgewise.load(run_folder)
    answers = run.predict(tmp_path)
    assert [a["input"] for a in answers] == [f"p{i}" for i in range(60)]
    assert right(answers) > 0.8
    rows = [line.split(",") for line in (tmp_path / "nodes.csv").read_text().split()[1:]]
    edges = [line.split(",") for line in (tmp_path / "edges.csv").read_text().split()[1:]]
    index = np.array([[int(end[1:]) for end in edge] for edge in edges]).T
    x = np.array([[float(row[1])] for row in rows])
    np.savez(tmp_path / "graph.npz", edge_index=index, x=x)
    again = run.predict(tmp_path / "graph.npz")
    assert [a["probability"] for a in again] == pytest.approx([a["probability"] for a in answers])
    np.savez(tmp_path / "wide.npz", edge_index=index, x=np.hstack([x, x]))
    with pytest.raises(ArgumentError, match="1 feature, as in training; got 2"):
        run.predict(tmp_path / "wide.npz")
    (tmp_path / "edges.csv").unlink()
    with pytest.raises(MissingDataError, match=r"edges\.csv"):
        run.predict(tmp_path)
    with pytest.raises(MissingDataError, match="nowhere"):
        run.predict(tmp_path / "nowhere")
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("paper,size\np1,3\n")
    with refused(str(nodes), expected="'length'", got="paper, size", remedy="feature columns"):
        run.predict(tmp_path)


@pytest.mark.slow
def test_a_graph_with_few_labels(tmp_path):
    write(tmp_path, 80, 0)
    lines = (tmp_path / "nodes.csv").read_text().splitlines()
    few = [line if i < 17 else line.replace(line.split(",")[1], "") for i, line in enumerate(lines)]
    (tmp_path / "nodes.csv").write_text("\n".join(few))
    files = {"data.nodes": str(tmp_path / "nodes.csv"), "data.edges": str(tmp_path / "edges.csv")}
    recipe = with_values(find("nodes-few-labels"), {**files, "data.target": "topic", **FAST})
    assert recipe.task.views == 2
    assert (recipe.data.load().train.make(torch.tensor([0])).target == -100).sum() > 60
    train(recipe, tmp_path / "run")
    run = edgewise.load(tmp_path / "run")
    assert right(run.predict([f"p{i}" for i in range(80)])) > 0.8
    assert main(["test", str(tmp_path / "run")]) == 0
    plain = with_values(find("nodes"), {**files, "data.target": "topic", "data.unlabelled": True})
    with refused("data.unlabelled", expected="no loss", got="true", remedy="nodes-few-labels"):
        train(plain, tmp_path / "plain")


def test_a_graph_without_features_knows_no_other(tmp_path):
    ids = [f"n{i}" for i in range(20)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,label", *(f"{n},{n[-1]}" for n in ids)]))
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", "n1,n11", "n2,n12"]))
    (tmp_path / "nodes.csv").write_text(
        "\n".join(["id,label", *(f"{n},{int(n[1:]) % 2}" for n in ids)])
    )
    data = NodeFiles(nodes=str(tmp_path / "nodes.csv"), edges=str(tmp_path / "edges.csv"))
    recipe = with_values(replace(find("nodes"), data=data), FAST | {"trainer.epochs": 2})
    train(recipe, tmp_path / "run")
    run = edgewise.load(tmp_path / "run")
    assert run.predict(["n4"])[0]["label"] in ("0", "1")
    with pytest.raises(ArgumentError, match="trained without features"):
        run.predict(tmp_path)


@pytest.mark.slow(after=1)
@needs("Cora")
@pytest.mark.parametrize("name", ["gcn-cora", "grand-cora"])
def test_papers_of_cora(name, tmp_path, monkeypatch):
    recipe = with_values(find(name), {"trainer.accelerator": "cpu", "trainer.epochs": 3})
    metrics = train(recipe, tmp_path / "run")
    test = recipe.data.load().test.make(torch.tensor([0]))
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    run = edgewise.load(tmp_path / "run")
    answers = run.predict(test.select.tolist())
    labels = run.predictor.preprocessing.values["labels"]
    assert labels[3] == "Neural_Networks"
    told = [labels.index(a["label"]) for a in answers]
    accuracy = (torch.tensor(told) == test.target).float().mean()
    assert float(accuracy) == pytest.approx(metrics["test/accuracy"])
    with pytest.raises(ArgumentError, match="edgewise train nodes"):
        run.predict(tmp_path)
