"""Files from the web: gzipped where the name says so, and refused where they are something else."""

from __future__ import annotations

import gzip
import os
import stat
from pathlib import Path

import pytest

from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.files.files import find_files, naming
from edgewise.app.kinds.translation import Multi30k
from tests.errors import refused


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files to download, beside an empty cache."""
    monkeypatch.delenv("EDGEWISE_DATA", raising=False)
    monkeypatch.setenv("EDGEWISE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(b"text"))
    (tmp_path / "page.gz").write_text("404: not found")
    damaged = bytearray(gzip.compress(b"text" * 99, mtime=0))
    damaged[12:16] = b"\xff" * 4
    (tmp_path / "bits.gz").write_bytes(damaged)
    (tmp_path / "short.gz").write_bytes(gzip.compress(b"text")[:-3])
    return tmp_path


def test_plain_and_packed(web: Path) -> None:
    names = {"a.txt": "plain.txt", "b.gz": "plain.txt", "c.gz": "packed.gz"}
    raw = find_files("Set", {name: (web / file).as_uri() for name, file in names.items()})
    assert (raw / "a.txt").read_text() == "text"
    assert gzip.decompress((raw / "b.gz").read_bytes()) == b"text", "packed on the way"
    assert (raw / "c.gz").read_bytes() == (web / "packed.gz").read_bytes(), "as it came"


def test_a_cache_can_be_read_by_whom_the_umask_lets(web: Path) -> None:
    before = os.umask(0o022)
    try:
        raw = find_files("Set", {"a.txt": (web / "plain.txt").as_uri()})
    finally:
        os.umask(before)
    assert stat.S_IMODE(raw.stat().st_mode) == 0o755
    assert stat.S_IMODE((raw / "a.txt").stat().st_mode) == 0o644


@pytest.mark.parametrize("wrong", ["page.gz", "short.gz", "bits.gz", "nowhere.gz"])
def test_what_does_not_come_whole(web: Path, wrong: str) -> None:
    sources = {"a.txt": (web / "plain.txt").as_uri(), "b.gz": (web / wrong).as_uri()}
    with pytest.raises(MissingDataError, match="Remedy"):
        find_files("Set", sources)
    assert list((web / "cache" / "Set").iterdir()) == [], "nothing to be trusted later"


@pytest.mark.parametrize("name", ["../x", "a/b", "/x", "..", ".hidden", "", "a\\b", "a\n"])
def test_names_are_no_paths(name: str, web: Path) -> None:
    for data, file in ((name, "a.txt"), ("Set", name)):
        with refused("data.name", expected="letters", got=repr(name), remedy="EDGEWISE_DATA"):
            find_files(data, {file: (web / "plain.txt").as_uri()})
    assert not (web / "cache").exists()


@pytest.mark.usefixtures("web")
def test_nor_are_those_that_a_field_gives() -> None:
    with refused("data.name", expected="letters", got="'../../train.en.gz'", remedy="name"):
        Multi30k(train="../../train").load()


def test_an_error_about_data_names_their_files() -> None:
    def short(got: str) -> None:
        raise ArgumentError("data.val", expected="more", got=got, remedy="add some")

    with (
        refused("data.val", expected="more", got="3, from a.txt, b.gz", remedy="add some"),
        naming("a.txt", Path("raw/b.gz")),
    ):
        short("3")
    with pytest.raises(ArgumentError, match=r"got 3 in a\.txt\. Remedy"), naming("a.txt"):
        short("3 in a.txt")
