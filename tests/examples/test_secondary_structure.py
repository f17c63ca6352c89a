"""CB513 as a file of tags: residues with three classes of secondary structure."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "scripts" / "secondary_structure.py"


def test_residues_have_three_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = tmp_path / "CB513", tmp_path / "cb513.tsv"
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(folder), str(out)])
    with pytest.raises(SystemExit):  # No files.
        runpy.run_path(str(SCRIPT), run_name="__main__")
    folder.mkdir()
    (folder / "1abc.all").write_text("RES:A,C,D,E,F,\nDSSP:H,G,E,B,_,\nSTRIDE:C,C,C,C,C,\n")
    (folder / "2abc.all").write_text("RES:G,K,\nDSSP:T,I,\nSTRIDE:C,C,\n")
    runpy.run_path(str(SCRIPT), run_name="__main__")
    chains = [" ".join(chain.split()) for chain in out.read_text().split("\n\n")]
    assert chains == ["A H C H D E E E F C", "G C K H"]
