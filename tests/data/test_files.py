"""Files from the web: gzipped where the name says so, and refused where they are something else."""

from __future__ import annotations

import gzip
import os
import stat
from pathlib import Path

import pytest

from edgewise.data.files import find_files
from edgewise.errors import MissingDataError


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files to download, beside an empty cache."""
    monkeypatch.delenv("EDGEWISE_DATA", raising=False)
    monkeypatch.setenv("EDGEWISE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(b"text"))
    (tmp_path / "page.gz").write_text("404: not found")
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


@pytest.mark.parametrize("wrong", ["page.gz", "short.gz", "nowhere.gz"])
def test_what_does_not_come_whole(web: Path, wrong: str) -> None:
    sources = {"a.txt": (web / "plain.txt").as_uri(), "b.gz": (web / wrong).as_uri()}
    with pytest.raises(MissingDataError, match="Remedy"):
        find_files("Set", sources)
    assert list((web / "cache" / "Set").iterdir()) == [], "nothing to be trusted later"
