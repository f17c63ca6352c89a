"""The sweep runs its jobs as processes of this machine, and resumes those that have begun."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("submitit")

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "scripts" / "sweep.py"


@pytest.mark.slow
def test_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = ["optimizer.lr=0.0001,0.01", "trainer.epochs=1"]
    words = [str(SCRIPT), "digits", str(tmp_path), *fields, "--cluster", "local"]
    monkeypatch.setattr(sys, "argv", words)
    for _ in range(2):  # The second sweep finds both runs.
        runpy.run_path(str(SCRIPT), run_name="__main__")
        best, other = capsys.readouterr().out.splitlines()
        assert best.endswith("optimizer.lr=0.01 trainer.epochs=1")
        assert float(best.split()[0]) < float(other.split()[0])
