"""The fuzz of ``kills.py``, briefly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.kills import fuzz

pytest.importorskip("lightning")
pytest.importorskip("sklearn")


@pytest.mark.slow
@pytest.mark.parametrize("run", ["digits", "sampled"])
def test_a_killed_run_ends_as_an_unbroken_one(tmp_path: Path, run: str) -> None:
    assert fuzz(kills=2, seed=0, folder=tmp_path, runs=(run,)) >= 1
