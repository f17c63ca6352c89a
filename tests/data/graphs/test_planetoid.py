"""Cora as published, read without writing; what is missing or broken is named."""

from __future__ import annotations

import pickle
import shutil
import warnings
from pathlib import Path

import pytest
import torch

from edgewise.data import planetoid
from edgewise.data.files import find_raw
from edgewise.data.graphs.planetoid import read_papers
from edgewise.errors import MissingDataError
from tests.errors import refused
from tests.places import ROOT, needs

needs_cora = needs("Cora")


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A data root with the eight files of Cora, all empty."""
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("EDGEWISE_CACHE", str(tmp_path / "cache"))
    raw = tmp_path / "data" / "Cora" / "raw"
    raw.mkdir(parents=True)
    for name in planetoid().files:
        (raw / name).touch()
    return raw


@needs_cora
def test_cora_as_published():
    files = sorted((path, path.stat().st_mtime_ns) for path in ROOT.joinpath("Cora").rglob("*"))
    splits = planetoid("Cora").load()
    assert splits.model_arguments == {"in_width": 1433, "out_width": 7}
    assert set(splits.model_arguments) == set(planetoid.provides)
    loaders = splits.loaders(0)
    batches = {name: next(iter(loader)) for name, loader in loaders.items()}
    assert {name: len(b.target) for name, b in batches.items()} == {
        "train": 140,
        "val": 500,
        "test": 1000,
    }
    assert batches["train"].target.bincount().tolist() == [20] * 7
    x, graph = batches["train"].inputs
    assert x.shape == (2708, 1433)
    assert torch.allclose(x.to_dense().sum(1), torch.ones(2708))
    assert (graph.num_targets, graph.num_edges) == (2708, 10556)
    again = sorted((path, path.stat().st_mtime_ns) for path in ROOT.joinpath("Cora").rglob("*"))
    assert again == files, "the data folder is only read"


@needs_cora
def test_the_tensors_are_those_of_pyg():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the files name modules of NumPy and SciPy of 2016
        pyg = pytest.importorskip("torch_geometric.io")
        theirs = pyg.read_planetoid_data(str(ROOT / "Cora" / "raw"), "cora")
    ours = read_papers(ROOT / "Cora" / "raw", "Cora")
    assert torch.equal(ours.x, theirs.x)
    assert torch.equal(ours.y, theirs.y)
    assert torch.equal(ours.edge_index, theirs.edge_index)
    for name, index in ours.splits.items():
        assert torch.equal(index, theirs[f"{name}_mask"].nonzero().flatten())


@pytest.fixture
def cora(tmp_path, monkeypatch):
    """A copy of Cora's files that may be changed."""
    shutil.copytree(ROOT / "Cora", tmp_path / "Cora")
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    for file in (tmp_path / "Cora" / "raw").iterdir():
        file.chmod(0o644)
    return tmp_path / "Cora" / "raw"


@needs_cora
@pytest.mark.parametrize("part", ["allx", "ally", "graph"])
def test_a_pickle_runs_nothing(part, cora):
    class Harm:
        def __reduce__(self):
            return Path.touch, (cora / "harm",)

    file = cora / f"ind.cora.{part}"
    file.write_bytes(pickle.dumps(Harm()))
    with refused(str(file), expected="arrays", got="may run anything", remedy="again"):
        planetoid("Cora").load()
    assert not (cora / "harm").exists()


@needs_cora
def test_features_of_a_broken_file(cora):
    file = cora / "ind.cora.allx"
    file.write_bytes(file.read_bytes()[:1000])
    with refused(str(file), expected="arrays", got="Error", remedy="again"):
        planetoid("Cora").load()


def without(graph, paper):
    return {key: others for key, others in graph.items() if key != paper}


@needs_cora
@pytest.mark.parametrize(
    ("part", "cut", "blamed", "got"),
    [
        ("ally", lambda y: y[[*range(len(y)), 0]], "ally", "1709 lines"),
        ("ally", lambda y: 2 * y, "ally", "other numbers"),
        ("ty", lambda y: y[:-20], "ty", "980 lines"),
        ("tx", lambda x: x[:, :1000], "tx", "1000"),
        ("tx", lambda x: x[:980], "ty", "1000 lines"),
        ("allx", lambda x: x * float("inf"), "allx", "NaN or infinity"),
        ("y", lambda y: y.repeat(9, 0), "y", "1260"),
        ("graph", lambda graph: {**graph, 0: [2708]}, "graph", "(0, 2708)"),
        ("graph", lambda graph: without(graph, 5), "test.index", "1000 of 1000, from 1708 to 2707"),
        ("graph", lambda graph: {**without(graph, 5), 9999: []}, "graph", "other papers"),
        ("graph", lambda graph: {**graph, 0: ["1"]}, "graph", "whole numbers"),
    ],
)
def test_files_that_disagree(part, cut, blamed, got, cora):
    file = cora / f"ind.cora.{part}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pickle.loads(file.read_bytes(), encoding="latin1")
    changed = cut(found)
    file.write_bytes(pickle.dumps(changed))
    with refused(str(cora / f"ind.cora.{blamed}"), expected="", got=got, remedy=""):
        planetoid("Cora").load()


@needs_cora
@pytest.mark.parametrize("change", ["cut", "twice", "large", "text"])
def test_an_index_that_does_not_fit(change, cora):
    file = cora / "ind.cora.test.index"
    lines = file.read_text().split()
    lines = {
        "cut": lines[:-20],
        "twice": [*lines[:-1], lines[0]],
        "large": [*lines[:-1], "900000000"],
        "text": [*lines[:-1], "a"],
    }[change]
    file.write_text("\n".join(lines))
    with refused(str(file), expected="", got="", remedy=""):
        planetoid("Cora").load()


def test_missing_file(tiny):
    (tiny / "ind.cora.graph").unlink()
    with pytest.raises(MissingDataError) as caught:
        planetoid("Cora").load()
    for part in ("ind.cora.graph", str(tiny), "Remedy"):
        assert part in str(caught.value)


def test_unknown_name():
    with refused("data.name", expected="Cora", got="'Coraa'", remedy="did you mean 'Cora'"):
        planetoid("Coraa")


class TestDownload:
    """Without EDGEWISE_DATA the files go into the cache, all of them or none."""

    @pytest.fixture(autouse=True)
    def _cache(self, tmp_path, monkeypatch):
        monkeypatch.delenv("EDGEWISE_DATA", raising=False)
        monkeypatch.setenv("EDGEWISE_CACHE", str(tmp_path))

    def test_whole(self, tmp_path):
        calls = []

        def download(folder):
            calls.append(folder)
            for name in "ab":
                (folder / name).touch()

        assert find_raw("Set", ["a", "b"], download) == tmp_path / "Set" / "raw"
        find_raw("Set", ["a", "b"], download)
        assert len(calls) == 1, "the second time it is there"

    def test_half(self, tmp_path):
        def breaks_off(folder):
            (folder / "a").touch()
            raise OSError("connection lost")

        def finishes_early(folder):
            (folder / "a").touch()

        for download in (breaks_off, finishes_early):
            with pytest.raises(MissingDataError, match="Remedy"):
                find_raw("Set", ["a", "b"], download)
            assert list((tmp_path / "Set").iterdir()) == [], "nothing to be trusted later"
