"""The page of results: what is taken in, what is shown, and what is no longer true."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from edgewise.recipes import find
from edgewise.runs import to_record, with_values
from edgewise.runs.seeds import summarise

RESULTS = runpy.run_path(str(Path(__file__).resolve().parent.parent / "docs" / "results.py"))
NAME = "gcn-cora"


def finished(runs: Path, **changes: Any) -> None:
    """Two seeds, as `edgewise train --seeds` leaves them."""
    folder = runs / NAME
    folder.mkdir(parents=True)
    recipe = with_values(find(NAME), {name.replace("_", ".", 1): v for name, v in changes.items()})
    (folder / "recipe.json").write_text(json.dumps(to_record(recipe)))
    each = [{"test/accuracy": value, "cpu_seconds": 30.0} for value in (0.81, 0.83)]
    (folder / "metrics.json").write_text(json.dumps(summarise(each)))


def test_a_row_has_the_mean_the_reference_and_the_protocol(tmp_path: Path) -> None:
    finished(tmp_path)
    measured: dict[str, Any] = {}
    RESULTS["collect"](measured, tmp_path, [NAME], False)
    (row,) = [line for line in RESULTS["page"](measured).splitlines() if f"| `{NAME}`" in line]
    protocol = find(NAME).protocol
    cells = row.strip("| ").split(" | ")
    assert cells[1:3] == ["accuracy 82.00 ± 1.41 %", protocol.reference]
    assert cells[3:] == [f"{protocol.says}; seeds 0 to 1", "1.0"]
    assert f"edgewise train {NAME} --seeds 10" in RESULTS["page"](measured)


def test_what_was_measured_with_other_numbers_is_not_shown(tmp_path: Path) -> None:
    finished(tmp_path, model_hidden=8)
    measured: dict[str, Any] = {}
    RESULTS["collect"](measured, tmp_path, [NAME], False)
    assert measured == {}
    record = json.loads((tmp_path / NAME / "recipe.json").read_text())
    metrics = json.loads((tmp_path / NAME / "metrics.json").read_text())
    page = RESULTS["page"]({NAME: {"recipe": record, "metrics": metrics}})
    assert f"| `{NAME}`" not in page
    assert f"`{NAME}`" in page.split("Nothing is claimed")[1]


def test_what_is_missing_is_trained_and_what_is_there_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def train_seeds(recipe: Any, seeds: int, path: Path, *, resume: bool) -> None:
        calls.append((recipe.name, seeds, resume))
        finished(path.parent)

    monkeypatch.setattr("edgewise.runs.seeds.train_seeds", train_seeds)
    measured: dict[str, Any] = {}
    for _ in range(2):
        RESULTS["collect"](measured, tmp_path, [NAME], True)
    assert calls == [(NAME, 10, False)]
    assert measured[NAME]["metrics"]["test/accuracy"]["values"] == [0.81, 0.83]


def test_how_often_a_run_saved_makes_no_other_recipe_of_it(tmp_path: Path) -> None:
    finished(tmp_path, trainer_save_every=60)
    measured: dict[str, Any] = {}
    RESULTS["collect"](measured, tmp_path, [NAME], False)
    assert NAME in measured
