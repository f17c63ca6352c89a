"""Graphs on disk: edges as in memory, exact evaluation, named errors, a limit of memory."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.lib.format import open_memmap

import edgewise
from edgewise import graphs, models
from edgewise._utils.errors import EdgewiseError, Interrupted
from edgewise.app.files import sorted_edges as module
from edgewise.app.files.sorted_edges import sorted_edges
from edgewise.app.kinds import find
from edgewise.app.kinds.nodes import NodeArrays
from edgewise.app.kinds.nodes.arrays import node_reasons
from edgewise.app.train.edge_splits import both_ways, distinct
from edgewise.app.train.neighbours import NeighbourSampler
from edgewise.app.train.standardisation import Standardisation
from tests.app.train.test_resume import assert_same, break_at, ctrl_c
from tests.errors import refused

NODES, WIDTH = 300, 4


def whole_graph(folder: Path) -> tuple[torch.Tensor, graphs.Graph]:
    """Return the standardised features and the graph, in memory."""
    x = torch.tensor(np.load(folder / "x.npy"))
    scaled = ((x - x.mean(0)) / x.std(0, correction=0)).float()
    return scaled, graphs.edges(edges_of(folder), NODES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    edges = np.random.default_rng(0).integers(NODES, size=(2, 2000))
    edges[:, :3] = 7  # Self-loops; other edges are repeated.
    edges[:, 3:9] = edges[:, 9:10]
    np.save(tmp_path / "edge_index.npy", edges)
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(NODES, WIDTH)))
    np.save(tmp_path / "y.npy", np.arange(NODES) % 3 - (np.arange(NODES) % 10 == 0))
    return tmp_path


def edges_of(folder: Path, *, directed: bool = False) -> torch.Tensor:
    """Return the edges from disk as ``edge_index``, sorted by target."""
    pointer, column = sorted_edges(folder, NODES, directed=directed)
    return torch.stack([column.long(), torch.arange(NODES).repeat_interleave(pointer.diff())])


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("form", ["npy", "parquet", "csv"])
def test_edges_are_those_of_memory(folder, form, directed, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 300)
    pairs = np.load(folder / "edge_index.npy")
    if form != "npy":
        (folder / "edge_index.npy").unlink()
        table = pd.DataFrame({"source": pairs[0], "target": pairs[1]})
        if form == "csv":
            table.to_csv(folder / "edges.csv", index=False)
        else:
            table.to_parquet(folder / "edges.parquet")
    expected = torch.tensor(pairs[:, pairs[0] != pairs[1]])
    expected = expected if directed else both_ways(expected)
    expected = distinct(expected.flip(0)).flip(0)
    assert torch.equal(edges_of(folder, directed=directed), expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("target,source\n1,0\n", [[0], [1]]),
        ("id,src,dst\n7,0,1\n", [[0], [1]]),
        ("a,b\n0,1\n", [[0], [1]]),
    ],
)
def test_columns_are_found_by_name(folder, text, expected):
    (folder / "edge_index.npy").unlink()
    (folder / "edges.csv").write_text(text)
    assert edges_of(folder, directed=True).tolist() == expected


@pytest.mark.parametrize(("text", "got"), [("0,1\n2,3\n", "0, 1"), ("a,b,c\n0,1,2\n", "a, b, c")])
def test_columns_without_names_are_refused(folder, text, got):
    (folder / "edge_index.npy").unlink()
    (folder / "edges.csv").write_text(text)
    with refused(str(folder / "edges.csv"), expected="column", got=got, remedy="source"):
        edges_of(folder)


def test_edges_are_sorted_once_and_again_when_they_change(folder, monkeypatch):
    before = edges_of(folder)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_sort", None)  # A call would be an error.
        assert torch.equal(edges_of(folder), before)
    np.save(folder / "edge_index.npy", np.array([[0, 1], [5, 5]]))
    assert edges_of(folder, directed=True).tolist() == [[0, 1], [5, 5]]
    assert edges_of(folder).tolist() == [[5, 5, 0, 1], [0, 1, 5, 5]]


@pytest.mark.parametrize("size", [0, -8])
@pytest.mark.parametrize("name", ["column.bin", "pointer.npy", "source.json"])
def test_sorted_edges_that_are_cut_short_are_sorted_again(folder, name, size):
    before = edges_of(folder)
    file = folder / "sorted" / name
    file.write_bytes(file.read_bytes()[:size])
    assert torch.equal(edges_of(folder), before)


def test_no_edges(folder):
    np.save(folder / "edge_index.npy", np.empty((2, 0), dtype=np.int64))
    assert edges_of(folder).shape == (2, 0)


@pytest.mark.parametrize("name", ["graphsage", "gcn", "gat"])
def test_evaluation_uses_all_edges(folder, name, monkeypatch):
    data = NodeArrays(str(folder), fanouts=(1, 1), batch_size=20)
    splits = data.load()
    model = getattr(models, name)(WIDTH, 3).eval()
    expected = model(*whole_graph(folder))
    monkeypatch.setattr("edgewise.app.train.layerwise.NUMBERS", 5000)  # Several blocks.
    batches = list(splits.loaders(0)["test"])
    y = torch.tensor(np.load(folder / "y.npy"))
    assert len(batches) == 3
    test_nodes = torch.cat([batch.nodes for batch in batches])
    assert len(test_nodes) == splits.test.count == round(0.2 * int((y >= 0).sum()))
    assert torch.equal(y[test_nodes], torch.cat([batch.target for batch in batches]))
    outputs = torch.cat([batch.outputs(model) for batch in batches])
    torch.testing.assert_close(outputs, expected[test_nodes], rtol=0, atol=1e-5)
    near = batches[0].neighbourhood()
    near_outputs = near.select_outputs(near.outputs(model))
    torch.testing.assert_close(near_outputs, expected[batches[0].nodes], rtol=0, atol=1e-5)
    # Another evaluation, after a training step, computes the hidden features anew.
    with torch.no_grad():
        next(model.parameters()).add_(0.1)
    again = torch.cat([batch.outputs(model) for batch in splits.loaders(0)["test"]])
    expected = model(*whole_graph(folder))[test_nodes]
    torch.testing.assert_close(again, expected, rtol=0, atol=1e-5)
    sampled = next(iter(splits.loaders(0)["train"]))
    assert sampled.inputs[1].in_degree().max() <= 1


def test_a_neighbourhood_copies_no_array_of_all_nodes(folder, monkeypatch):
    graph = NodeArrays(str(folder)).open(Standardisation(torch.zeros(WIDTH), torch.ones(WIDTH)))
    monkeypatch.setattr(NeighbourSampler, "with_fanouts", None)  # A call would be an error.
    _, near, nodes = graph.neighbourhood(torch.tensor([3]))
    assert near.in_degree()[0] == near.whole_in_degree()[0] > 2
    assert len(nodes) == near.num_targets


def test_masks_select_the_nodes(folder):
    number = np.arange(NODES)
    for name, first in (("train", 0), ("val", 100), ("test", 200)):
        np.save(folder / f"{name}_mask.npy", (number >= first) & (number < first + 50))
    splits = NodeArrays(str(folder)).load()
    assert splits.train.count == 48, "2 of 50 have no class"
    np.save(folder / "val_mask.npy", number < 3)
    with refused("train, val", expected="no example in common", got="2", remedy="remove"):
        NodeArrays(str(folder)).load()


def test_from_training_to_reasons(folder, tmp_path):
    recipe = find("nodes-on-disk")
    recipe = replace(
        recipe, data=NodeArrays(str(folder)), trainer=replace(recipe.trainer, epochs=1)
    )
    edgewise.train(recipe, tmp_path / "run")
    run = edgewise.load(tmp_path / "run")
    answers = run.predict(["3", "3", "300"])
    assert answers[0] == answers[1]
    (case,) = node_reasons(run.predictor, "3", 1)
    chance = answers[0]["probability"]
    assert case.score().item() == pytest.approx(math.log(chance / (1 - chance)), abs=1e-4)
    assert case.answer == answers[0]["label"]
    assert "expected a node from 0 to 299" in answers[2]["error"]
    np.save(folder / "x.npy", np.zeros((NODES, WIDTH + 1)))
    with pytest.raises(EdgewiseError, match=r"expected shape \[300, 4\], as in training"):
        edgewise.load(tmp_path / "run")
    (folder / "x.npy").unlink()
    with pytest.raises(EdgewiseError, match=r"x\.npy: no such file"):
        edgewise.load(tmp_path / "run")


def test_numbers_and_missing_numbers_are_read(folder):
    y = np.random.default_rng(2).normal(50, 3, NODES).astype(np.float32)
    y[::4] = np.nan
    np.save(folder / "y.npy", y)
    splits = NodeArrays(str(folder)).load()
    assert splits.model_arguments["out_width"] == 1
    assert splits.train.count + splits.val.count + splits.test.count == NODES * 3 // 4
    (target,) = splits.targets
    assert target.mean == pytest.approx(50, abs=1)
    assert splits.train.target_scale.std == [target.std]
    batch = next(iter(splits.loaders(0)["val"]))
    assert torch.equal(batch.target[:, 0], torch.tensor(y[batch.nodes]).double())


@pytest.mark.slow
def test_numbers_are_learned_and_predicted(folder, tmp_path, monkeypatch):
    x, graph = whole_graph(folder)
    source, target = graph.edge_index
    mean = torch.zeros(NODES).index_add(0, target, x[source, 0]) / graph.in_degree().clamp(min=1)
    y = 1000 + 50 * mean.double()
    y[::10] = torch.nan
    np.save(folder / "y.npy", y.numpy())
    recipe = replace(find("nodes-on-disk"), data=NodeArrays(str(folder), batch_size=16))
    recipe = replace(recipe, trainer=replace(recipe.trainer, epochs=8))
    metrics = edgewise.train(recipe, tmp_path / "run")
    assert metrics["test/r2"] > 0.3
    run = edgewise.load(tmp_path / "run")
    single = run.predict(["3"])[0]["y"]
    assert abs(single - float(y[3])) < 40
    monkeypatch.setattr("edgewise.app.kinds.nodes.arrays.FRACTION", 0)  # All nodes at once.
    everything = edgewise.load(tmp_path / "run").predict([str(i) for i in range(NODES)])
    assert everything[3]["y"] == pytest.approx(single, abs=1e-4)
    (case,) = node_reasons(run.predictor, "3", 1)
    assert case.score().item() == pytest.approx(single, abs=1e-3)
    baselines = list(edgewise.app.runs.baselines(recipe, quick=True))
    assert min(b.metrics["test/mae"] for b in baselines) < 50


def test_a_broken_run_goes_on_in_the_same_samples(folder, tmp_path, monkeypatch):
    data = NodeArrays(str(folder), fanouts=(2, 2), batch_size=40)
    recipe = replace(find("nodes-on-disk"), data=data)
    recipe = replace(recipe, trainer=replace(recipe.trainer, epochs=2, save_every=0))
    edgewise.train(recipe, tmp_path / "unbroken")
    monkeypatch.setattr("edgewise.app.train.callbacks.INTERVAL_FACTOR", 0)
    break_at(monkeypatch, 7, ctrl_c)  # An epoch has six batches.
    with pytest.raises(Interrupted):
        edgewise.train(recipe, tmp_path / "run")
    edgewise.train(recipe, tmp_path / "run", resume=True)
    assert_same(tmp_path / "run", tmp_path / "unbroken")


@pytest.mark.parametrize(
    ("name", "array", "error"),
    [
        ("edge_index", np.array([[0], [NODES]]), "got node 300"),
        ("edge_index", np.zeros((3, 2), dtype=int), r"shape \[3, 2\]"),
        ("edge_index", np.zeros((2, 2)), "float64"),
        ("y", np.zeros(NODES), "expected different numbers in the training set"),
        ("y", np.full(NODES, np.inf), "expected finite numbers"),
        ("y", np.zeros(NODES, dtype=int), "classes up to 0"),
        ("y", np.arange(NODES - 1), r"y.npy \[299\]"),
        ("y", np.zeros(NODES, dtype=np.uint16), "classes up to 0"),
        ("x", np.full((NODES, 2), np.nan), "NaN or infinity"),
        ("x", np.array([object()] * NODES), "array of numbers"),
        ("train_mask", np.ones(5), "one value for each of 300 nodes"),
    ],
)
def test_wrong_arrays_are_named(folder, name, array, error):
    np.save(folder / f"{name}.npy", array, allow_pickle=True)
    for mask in ("train_mask", "val_mask", "test_mask") if "mask" in name else ():
        if mask != name:
            np.save(folder / f"{mask}.npy", np.ones(NODES))
    with pytest.raises(EdgewiseError, match=error):
        NodeArrays(str(folder)).load()


def test_a_truncated_array_and_a_missing_folder_are_named(folder):
    data = (folder / "x.npy").read_bytes()
    (folder / "x.npy").write_bytes(data[:-1000])
    with pytest.raises(EdgewiseError, match=r"x\.npy.*saved by numpy\.save"):
        NodeArrays(str(folder)).load()
    shutil.rmtree(folder)
    with pytest.raises(EdgewiseError, match="no such folder"):
        NodeArrays(str(folder)).load()


LIMITED = """
import resource, sys
import numpy as np
from edgewise.app.cli import main

small, folder, run, limit = *sys.argv[1:4], int(sys.argv[4])

def train_and_predict(folder, run):
    options = ["--data.fanouts", "3,3", "--data.batch_size", "64", "--trainer.epochs", "1"]
    train = ["train", "nodes-on-disk", "--data.path", folder, "--out", run, *options]
    for command in (train, ["predict", run, "1"]):
        sys.argv = ["edgewise", *command]
        if code := main():
            sys.exit(code)

train_and_predict(small, run + "-small")  # What it imports is not part of the limit.
(used,) = (int(line.split()[1]) * 1024 for line in open("/proc/self/status") if "VmData" in line)
resource.setrlimit(resource.RLIMIT_DATA, (used + limit, used + limit))
try:
    np.load(folder + "/x.npy")
except MemoryError:
    print("the features do not fit")
train_and_predict(folder, run)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_a_graph_of_three_times_the_memory(folder, tmp_path_factory):
    """RLIMIT_DATA limits what a process allocates, and not the pages of files that it maps."""
    tmp_path = tmp_path_factory.mktemp("large")
    nodes, width, limit = 150_000, 1000, 200_000_000
    x = open_memmap(tmp_path / "x.npy", "w+", np.float32, (nodes, width))
    for start in range(0, nodes, 10_000):
        x[start : start + 10_000] = np.random.default_rng(start).normal(size=(10_000, width))
    assert x.nbytes == 3 * limit
    del x
    random = np.random.default_rng(0)
    y = np.full(nodes, -1)
    y[::100] = random.integers(3, size=nodes // 100)
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "edge_index.npy", random.integers(nodes, size=(2, 500_000)))
    command = [
        sys.executable,
        "-c",
        LIMITED,
        *map(str, (folder, tmp_path, tmp_path / "run", limit)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the features do not fit" in done.stdout
    assert done.stdout.count("test/accuracy") == 2
