"""A short run of the fuzz of files; ``python -m tests.fuzz.files`` runs as long as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.app.files.reading import read_own_text
from tests.fuzz.files import run
from tests.places import ROOT

pytest.importorskip("tokenizers")


@pytest.mark.slow
def test_damaged_files_are_named_or_read_as_they_are() -> None:
    seen, bad = run(35, seed=0, root=ROOT if ROOT.is_dir() else None)
    assert not bad, "\n".join(bad)
    assert seen["refused"] > 10
    assert seen["the same"] + seen["other data"] > 5


@pytest.mark.slow
def test_the_fuzz_finds_a_reader_that_does_not_name_its_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def careless(path: Path) -> str:
        return path.read_text() if path.suffix != ".gz" else read_own_text(path)

    monkeypatch.setattr("edgewise.app.kinds.language.files.read_own_text", careless)
    _, bad = run(40, seed=0, root=None, only="text_files")
    assert any("UnicodeDecodeError" in report for report in bad)
