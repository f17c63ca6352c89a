"""Sets of TU Dortmund, from files written here: what the format says and what is wrong with it."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import pytest
import torch

from edgewise._utils.errors import MissingDataError
from edgewise.app.kinds.graphs import TU
from edgewise.app.kinds.graphs.data import graph_preprocessing, node_features
from edgewise.app.kinds.graphs.files import read_graph_files
from tests.errors import refused
from tests.places import ROOT

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


def toy() -> TU:
    return TU(name="TOY", folds=2, val=0.5)


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
    assert TU(name="TOY", attributes=False).files == toy().files
    assert (
        TU(name="TOY", folds=2, val=0.5, attributes=False).load().model_arguments["in_width"] == 2
    )


def test_attributes_are_standardised_over_the_training_graphs(root: Path) -> None:
    write(root, node_attributes="\n".join(str(i * i) for i in range(2 * GRAPHS)))
    loaded = toy().load()
    x, *_ = loaded.train.make(torch.arange(loaded.train.count)).inputs
    assert x[:, 0].mean() == pytest.approx(0, abs=1e-6)
    assert x[:, 0].std(correction=0) == pytest.approx(1)


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


ONES = "\n".join("1" for _ in range(2 * GRAPHS))


@pytest.mark.parametrize(
    ("part", "text", "blamed", "got"),
    [
        ("A", "one, two", "A", "'one' in column 1 in line 1"),
        ("A", "1, 2\n3, 5", "A", "3, 5 in line 2"),
        ("A", "1, 2\n24, 25", "A", "24, 25 in line 2"),
        ("A", "0, 1", "A", "0, 1 in line 1"),
        ("A", "1, 2\n\n2, 1", "A", "'' in column 1 in line 2"),
        ("A", "1", "A", "1 in line 1"),
        ("graph_indicator", "one, two", "graph_indicator", "'one' in column 1 in line 1"),
        ("graph_indicator", "1\n2\n1", "graph_indicator", "graph 1 after graph 2 in line 3"),
        ("graph_indicator", "1\n3", "graph_indicator", "graph 3 after graph 1 in line 2"),
        ("graph_indicator", "1\n900000000", "graph_indicator", "in line 2"),
        ("graph_labels", "1\n2\n3", "graph_labels", "3 lines"),
        ("node_labels", "1\n2\n3", "node_labels", "3 lines"),
        ("node_labels", ONES.replace("1", "0.5", 1), "node_labels", "'0.5' in column 1 in line 1"),
        ("node_attributes", "1\n2\n3", "node_attributes", "3 lines"),
        ("node_attributes", ONES.replace("1", "1e39", 1), "node_attributes", "'1e39' in column 1"),
    ],
)
def test_a_damaged_file_is_named(root: Path, part: str, text: str, blamed: str, got: str) -> None:
    """Labels 20 lines short gave fewer graphs in silence."""
    write(root, **{part: text})
    path = root / "TOY" / "raw" / f"TOY_{blamed}.txt"
    with refused(str(path), expected="", got=got, remedy=""):
        toy().load()


def test_a_large_label_is_one_more_kind_of_node(root: Path) -> None:
    write(root, node_labels=ONES.replace("1", "900000000", 1))
    assert toy().load().model_arguments["in_width"] == 2


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("name", ["MUTAG", "ENZYMES"])
def test_the_tensors_are_those_of_pyg(name: str) -> None:
    if not (ROOT / name).is_dir():
        pytest.skip(f"EDGEWISE_DATA names no folder with {name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pyg = pytest.importorskip("torch_geometric.io")
    raw = ROOT / name / "raw"
    theirs, slices, sizes = pyg.read_tu_data(str(raw), name)
    found = read_graph_files(raw, name)
    split = sizes["num_node_attributes"]
    kinds = [column.unique().tolist() for column in found.labels.T]
    assert torch.equal(
        node_features(
            found.labels, torch.empty(len(found.labels), 0), graph_preprocessing([], kinds)
        ),
        theirs.x[:, split:],
    )
    assert torch.equal(found.attributes.float(), theirs.x[:, :split])
    assert torch.equal(found.edge_index, theirs.edge_index)
    assert torch.equal(found.node_start, slices["x"])
    assert torch.equal(found.edge_start, slices["edge_index"])
    assert torch.equal(found.classes.unique(return_inverse=True)[1], theirs.y)


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "a/b", "a\\b", "", ".."])
def test_a_name_that_is_a_path_makes_no_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDGEWISE_DATA", raising=False)
    monkeypatch.setenv("EDGEWISE_CACHE", str(tmp_path / "one" / "two"))
    with refused("data.name", expected="letters", got=repr(name), remedy="name of the data set"):
        TU(name=name).load()
    assert not list(tmp_path.iterdir())


class TestDownload:
    """The archive's own folder is unpacked into the cache, and nothing else is written."""

    @pytest.fixture(autouse=True)
    def packed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        write(tmp_path)
        monkeypatch.delenv("EDGEWISE_DATA", raising=False)
        monkeypatch.setenv("EDGEWISE_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("edgewise.app.kinds.graphs.tu.ADDRESS", (tmp_path / "web").as_uri())
        (tmp_path / "web").mkdir()
        archive = tmp_path / "web" / "TOY.zip"
        with zipfile.ZipFile(archive, "w") as file:
            for path in (tmp_path / "TOY" / "raw").iterdir():
                file.write(path, f"TOY/{path.name}")
        return archive

    def test_it_is_unpacked(self, tmp_path: Path) -> None:
        assert toy().load().train.count == 3
        raw = tmp_path / "cache" / "TOY" / "raw"
        assert sorted(path.name for path in raw.iterdir()) == sorted(toy().files)

    def test_nothing_else_is_written(self, packed: Path, tmp_path: Path) -> None:
        with zipfile.ZipFile(packed, "a") as file:
            for name in (
                "../../../harm.txt",
                "TOY/../TOY_harm.txt",
                "TOY/harm.py",
                "/TOY_harm.txt",
            ):
                file.writestr(name, "harm")
        toy().load()
        assert not list(tmp_path.rglob("*harm*"))

    @pytest.mark.parametrize("content", [b"", b"PK\3\4 damaged", b"text"])
    def test_a_damaged_archive_is_not_kept(
        self, content: bytes, packed: Path, tmp_path: Path
    ) -> None:
        packed.write_bytes(content)
        with pytest.raises(MissingDataError, match="the download failed"):
            toy().load()
        assert not list((tmp_path / "cache" / "TOY").iterdir())


def test_a_batch_size_below_one_is_refused() -> None:
    with refused("data.batch_size", expected="at least 1", got="0", remedy="32"):
        TU(batch_size=0)
