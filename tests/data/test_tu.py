"""Sets of TU Dortmund, from files written here: what the format says and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("torch_geometric", reason="PyTorch Geometric is not installed")

from edgewise.data import tu
from edgewise.errors import MissingDataError
from tests.errors import refused

GRAPHS = 12  # two nodes and one edge each way, three classes


def write(root: Path, **files: str) -> None:
    folder = root / "TOY" / "raw"
    folder.mkdir(parents=True)
    pairs = [(2 * g + 1, 2 * g + 2) for g in range(GRAPHS)]
    whole = {
        "A": "\n".join(f"{a}, {b}\n{b}, {a}" for a, b in pairs),
        "graph_indicator": "\n".join(str(g + 1) for g in range(GRAPHS) for _ in range(2)),
        "graph_labels": "\n".join(str(g % 3 + 5) for g in range(GRAPHS)),
        **files,
    }
    for name, text in whole.items():
        if text:
            (folder / f"TOY_{name}.txt").write_text(text + "\n")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    return tmp_path


def toy() -> tu:
    return tu(name="TOY", folds=2, val=0.5)


def test_node_labels_become_one_hot_and_classes_are_counted_from_zero(root: Path) -> None:
    write(root, node_labels="\n".join(str(3 + i % 2) for i in range(2 * GRAPHS)))
    loaded = toy().load()
    assert loaded.model_arguments == {"in_width": 2, "out_width": 3}
    batch = loaded.test.make(torch.arange(loaded.test.count))
    (x, graph), members = batch.inputs, batch.keywords["batch"]
    assert x.tolist() == [[1, 0], [0, 1]] * loaded.test.count
    assert graph.num_edges == 2 * loaded.test.count
    assert members.in_degree().tolist() == [2] * loaded.test.count
    assert batch.target.bincount().tolist() == [2, 2, 2]


def test_attributes_come_first_and_can_be_left_out(root: Path) -> None:
    write(
        root,
        node_attributes="\n".join(f"{i}, {i * i}" for i in range(2 * GRAPHS)),
        node_labels="\n".join(str(i % 2) for i in range(2 * GRAPHS)),
    )
    assert toy().load().model_arguments["in_width"] == 4
    assert tu(name="TOY", attributes=False).files == toy().files
    assert (
        tu(name="TOY", folds=2, val=0.5, attributes=False).load().model_arguments["in_width"] == 2
    )


def test_without_labels_every_node_has_a_one(root: Path) -> None:
    write(root)
    x, *_ = toy().load().train.make(torch.tensor([0])).inputs
    assert x.tolist() == [[1], [1]]


def test_a_graph_without_edges_is_good_input(root: Path) -> None:
    write(root, A="\n".join(f"{2 * g + 1}, {2 * g + 2}" for g in range(3)))
    loaded = toy().load()
    counts = [
        s.make(torch.arange(s.count)).inputs[1].num_edges
        for s in (loaded.train, loaded.val, loaded.test)
    ]
    assert sum(counts) == 3


def test_reading_writes_nothing(root: Path) -> None:
    write(root)
    before = sorted(root.rglob("*"))
    toy().load()
    assert sorted(root.rglob("*")) == before


def test_a_missing_file_is_named(root: Path) -> None:
    write(root, graph_labels="")
    with pytest.raises(MissingDataError, match=r"TOY_graph_labels\.txt: no such file"):
        toy().load()


@pytest.mark.parametrize("part", ["A", "graph_indicator"])
def test_a_file_with_text_in_it_is_refused(root: Path, part: str) -> None:
    write(root, **{part: "one, two"})
    with refused("data.name", expected="files of TOY", got="cannot be read", remedy="again"):
        toy().load()


def test_a_batch_size_below_one_is_refused() -> None:
    with refused("data.batch_size", expected="at least 1", got="0", remedy="32"):
        tu(batch_size=0)
