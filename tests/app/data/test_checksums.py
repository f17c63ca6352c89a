"""Checksums of the files of public data sets: a changed file is named before it is read."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from edgewise._utils.errors import MissingDataError
from edgewise.app.files.checksums import GIT_BLOBS, SHA256
from edgewise.app.files.files import find_files, verify
from edgewise.app.kinds.nodes import Planetoid
from edgewise.app.kinds.nodes.planetoid import NAMES
from tests.errors import refused
from tests.places import ROOT

TEXT = b"0 1\n2 3\n"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the data set ``Set``, whose content is the published one."""
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    digest = hashlib.sha256(TEXT).hexdigest()
    monkeypatch.setitem(SHA256, "Set", {"a.txt": digest, "a.txt.gz": digest})
    (tmp_path / "Set" / "raw").mkdir(parents=True)
    path = tmp_path / "Set" / "raw" / "a.txt"
    path.write_bytes(TEXT)
    return path


@pytest.mark.skipif(not ROOT.is_dir(), reason="EDGEWISE_DATA names no folder")
def test_published_files_match() -> None:
    found = [
        (data, ROOT / data / "raw" / name)
        for data, names in SHA256.items()
        for name in names
        if (ROOT / data / "raw" / name).is_file()
    ]
    for data, file in found:
        verify(data, file)
    assert found


def test_every_digest_is_a_sha256() -> None:
    for names in SHA256.values():
        for digest in names.values():
            assert len(bytes.fromhex(digest)) == 32


def test_a_changed_file_is_named(path: Path) -> None:
    sources = {path.name: "nowhere"}
    assert find_files("Set", sources) == path.parent
    changed = TEXT.replace(b"3", b"4")  # of the same size, in a process that has read the file
    path.write_bytes(changed)
    wanted, got = (hashlib.sha256(content).hexdigest() for content in (TEXT, changed))
    with refused(str(path), expected=f"SHA-256 {wanted}", got=got, remedy="copy or download"):
        find_files("Set", sources)


def test_the_content_of_a_gzip_file_counts(path: Path) -> None:
    packed = path.with_name("a.txt.gz")
    for level in (1, 9):
        packed.write_bytes(gzip.compress(TEXT, level, mtime=level))
        verify("Set", packed)
    packed.write_bytes(packed.read_bytes()[:-3])
    with refused(str(packed), expected="a complete file", got="", remedy="copy or download"):
        verify("Set", packed)


def test_a_file_without_a_digest_is_accepted(path: Path) -> None:
    other = path.with_name("b.txt")
    other.write_bytes(b"anything")
    verify("Set", other)
    verify("Other", path)


def test_the_digest_of_a_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = path.parent
    (folder / "x").mkdir()
    for name, content in (("x/1.jpg", b"one"), ("2.jpg", b"two")):
        (folder / name).write_bytes(content)
    digest = hashlib.sha256(b"2.jpgtwox/1.jpgone").hexdigest()
    monkeypatch.setitem(SHA256, "Set", {"raw": digest})
    verify("Set", folder)
    (folder / "x/1.jpg").write_bytes(b"two")
    with refused(str(folder), expected=f"SHA-256 {digest}", got="", remedy="copy or download"):
        verify("Set", folder)


def test_a_second_published_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"hello\n")
    monkeypatch.setitem(GIT_BLOBS, "Set", {path.name: "ce013625030ba8dba906f756967f9e9ca394464a"})
    verify("Set", path)
    path.write_bytes(b"hallo\n")
    with refused(str(path), expected="SHA-256", got="", remedy="copy or download"):
        verify("Set", path)


def test_a_download_with_other_content_is_not_kept(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDGEWISE_DATA")
    monkeypatch.setenv("EDGEWISE_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "web.txt"
    source.write_bytes(b"a page that says that nothing was found")
    with pytest.raises(MissingDataError, match=r"a\.txt.*SHA-256"):
        find_files("Set", {path.name: source.as_uri()})
    assert list((tmp_path / "cache" / "Set").iterdir()) == []
    source.write_bytes(TEXT)
    kept = find_files("Set", {path.name: source.as_uri()}) / path.name
    assert kept.read_bytes() == TEXT
    kept.write_bytes(b"changed later")
    with refused(str(kept), expected="SHA-256", got="", remedy=f"delete {kept.parent}"):
        find_files("Set", {path.name: source.as_uri()})


def test_only_files_with_a_digest_are_unpickled() -> None:
    for name in NAMES:
        parts = {file.partition(".")[2].partition(".")[2] for file in Planetoid(name).files}
        assert parts == {"x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"}
