"""Cora as published, read without writing; missing and changed files are named."""

from __future__ import annotations

import hashlib
import io
import pickle
import shutil
import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch

from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.files.checksums import SHA256
from edgewise.app.files.files import find_raw, verify
from edgewise.app.kinds.nodes import Planetoid
from edgewise.app.kinds.nodes.planetoid import ArrayUnpickler, read_papers
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
    for name in Planetoid().files:
        (raw / name).touch()
    return raw


@needs_cora
def test_cora_as_published():
    files = sorted((path, path.stat().st_mtime_ns) for path in ROOT.joinpath("Cora").rglob("*"))
    splits = Planetoid("Cora").load()
    assert splits.model_arguments == {"in_width": 1433, "out_width": 7}
    assert set(splits.model_arguments) <= set(Planetoid.provides)
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
@pytest.mark.parametrize("part", ["allx", "ally", "graph"])
def test_a_changed_pickle_is_not_unpickled(part, tmp_path, monkeypatch):
    class Harm:
        def __reduce__(self):
            return Path.touch, (tmp_path / "harm",)

    shutil.copytree(ROOT / "Cora" / "raw", tmp_path / "Cora" / "raw", copy_function=shutil.copyfile)
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    file = tmp_path / "Cora" / "raw" / f"ind.cora.{part}"
    file.write_bytes(pickle.dumps(Harm()))
    with refused(str(file), expected="SHA-256", got="", remedy="again"):
        Planetoid("Cora").load()
    assert not (tmp_path / "harm").exists()


@needs_cora
def test_the_bytes_that_were_verified_are_the_bytes_that_are_read(tmp_path, monkeypatch):
    """Another process replaces each file after it was verified by its path."""
    harm = tmp_path / "harm"

    class Harm:
        def __reduce__(self):
            return Path.touch, (harm,)

    def verify_and_swap(data, path, remedy=""):
        verify(data, path, remedy)
        path.unlink()
        path.write_bytes(pickle.dumps(Harm()))

    shutil.copytree(ROOT / "Cora" / "raw", tmp_path / "Cora" / "raw", copy_function=shutil.copyfile)
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    monkeypatch.setattr("edgewise.app.files.files.verify", verify_and_swap)
    with pytest.raises(ArgumentError, match="SHA-256"):
        Planetoid("Cora").load()
    assert not harm.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_but_arrays_is_unpickled(protocol, tmp_path):
    for value in (Path(tmp_path), Path.touch, print, Counter(), torch.zeros(1)):
        with pytest.raises(pickle.UnpicklingError, match="is not an array of numbers"):
            ArrayUnpickler(io.BytesIO(pickle.dumps(value, protocol))).load()
    assert ArrayUnpickler(io.BytesIO(pickle.dumps({1: [2]}, protocol))).load() == {1: [2]}


def pickled_object_array():
    """An array of objects, of which Python 2 would pickle a list."""
    return b"".join(
        (
            b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n)\x87R",
            b"(K\x01K\x01\x85cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R\x89U\x08" + bytes(8) + b"tb.",
        )
    )


def test_an_array_of_objects_is_refused():
    with pytest.raises((ValueError, TypeError, pickle.UnpicklingError)):
        ArrayUnpickler(io.BytesIO(pickled_object_array()), encoding="latin1").load()


@needs_cora
@pytest.mark.parametrize("name", ["Cora", "CiteSeer"])
def test_the_networks_are_those_that_pyg_reads(name, tmp_path, monkeypatch):
    """CiteSeer has papers that no file lists: here, Cora with gaps among its test papers."""
    pytest.importorskip("torch_geometric")
    from torch_geometric.io import read_planetoid_data

    raw = tmp_path / name / "raw"
    raw.mkdir(parents=True)
    digests = {}
    for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"):
        content = (ROOT / "Cora" / "raw" / f"ind.cora.{part}").read_bytes()
        if part == "test.index" and name == "CiteSeer":
            content = content.replace(b"2707", b"2711").replace(b"2000\n", b"2709\n")
        path = raw / f"ind.{name.lower()}.{part}"
        path.write_bytes(content)
        digests[path.name] = hashlib.sha256(content).hexdigest()
    monkeypatch.setitem(SHA256, name, digests)
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    papers = read_papers(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = read_planetoid_data(str(raw), name)
    assert torch.equal(papers.x, expected.x)
    assert torch.equal(papers.y, expected.y)
    assert torch.equal(papers.edge_index, expected.edge_index)
    for split, index in papers.splits.items():
        assert torch.equal(index, expected[f"{split}_mask"].nonzero()[:, 0])


@needs_cora
def test_papers_may_have_no_label_in_training():
    batch = next(iter(Planetoid(unlabelled=True).load().loaders(0)["train"]))
    assert (batch.target != -100).nonzero().flatten().tolist() == list(range(140))


def test_missing_file(tiny):
    (tiny / "ind.cora.graph").unlink()
    with pytest.raises(MissingDataError) as caught:
        Planetoid("Cora").load()
    for part in ("ind.cora.graph", str(tiny), "Remedy"):
        assert part in str(caught.value)


def test_unknown_name():
    with refused("data.name", expected="Cora", got="'Coraa'", remedy="did you mean 'Cora'"):
        Planetoid("Coraa")


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
