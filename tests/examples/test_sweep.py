"""The sweep runs its jobs as processes of this machine, and resumes those that have begun."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from edgewise.app.train import RunFolder

pytest.importorskip("submitit")

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "scripts" / "sweep.py"


@pytest.mark.slow
def test_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = ["optimizer.lr=0.0001,0.01", "trainer.epochs=1"]
    words = [str(SCRIPT), "digits", str(tmp_path), *fields, "--cluster", "local"]
    monkeypatch.setattr(sys, "argv", words)
    times = []
    for _ in range(2):  # The second sweep finds both runs.
        runpy.run_path(str(SCRIPT), run_name="__main__")
        printed = capsys.readouterr().out.splitlines()
        runs = [RunFolder(path) for path in tmp_path.glob("optimizer.lr=*_trainer.epochs=1")]
        losses = [(run.read_metrics()["val/loss"], run.path.name.replace("_", " ")) for run in runs]
        assert printed == [f"{loss:.4f}  {label}" for loss, label in sorted(losses)]
        assert len(runs) == 2
        times.append([(run.path / "metrics.json").stat().st_mtime_ns for run in runs])
    assert times[0] == times[1]
