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


def finished(runs: Path, *, seeds: int = 2, **changes: Any) -> None:
    """Some seeds, as `edgewise train --seeds` leaves them."""
    folder = runs / NAME
    folder.mkdir(parents=True, exist_ok=True)
    recipe = with_values(find(NAME), {name.replace("_", ".", 1): v for name, v in changes.items()})
    (folder / "recipe.json").write_text(json.dumps(to_record(recipe)))
    each = [{"test/accuracy": value, "cpu_seconds": 30.0} for value in (0.81, 0.83) * (seeds // 2)]
    (folder / "metrics.json").write_text(json.dumps(summarise(each)))


def test_a_row_has_the_mean_the_reference_and_the_protocol(tmp_path: Path) -> None:
    finished(tmp_path)
    measured: dict[str, Any] = {}
    RESULTS["collect"](measured, tmp_path, [NAME], False)
    (row,) = [line for line in RESULTS["page"](measured).splitlines() if f"| `{NAME}`" in line]
    protocol = find(NAME).protocol
    cells = row.strip("| ").split(" | ")
    assert cells[1:3] == ["accuracy 82.00 ± 1.41 %", protocol.reference]
    again = f"`python docs/results.py --runs DIR --train {NAME}`"
    assert cells[3:] == [f"{protocol.says}; **stale: 2 of 10 seeds**, {again}", "1.0"]
    assert f"edgewise train {NAME} --seeds 10" in RESULTS["page"](measured)


@pytest.mark.parametrize(
    ("found", "says"), [(10, "seeds 0 to 9"), (3, "**stale: 3 of 10 seeds**"), (0, "1 of 10 seeds")]
)
def test_a_row_says_how_many_seeds_it_is_of(found: int, says: str) -> None:
    each: dict[str, Any] = {"test/accuracy": 0.8, "cpu_seconds": 30.0}
    metrics = summarise([each] * found) if found else each  # 0: one run, not a folder of seeds
    recipe = find(NAME)
    page = RESULTS["page"]({NAME: {"recipe": to_record(recipe), "metrics": metrics}})
    (row,) = [line for line in page.splitlines() if f"| `{NAME}`" in line]
    assert says in row


def test_a_row_without_a_metric_that_is_now_asked_for_is_not_shown() -> None:
    metrics = summarise([{"test/loss": 0.8, "cpu_seconds": 30.0}] * 10)
    page = RESULTS["page"]({NAME: {"recipe": to_record(find(NAME)), "metrics": metrics}})
    assert f"`{NAME}`" in page.split("Nothing is claimed")[1]


def test_what_was_measured_with_other_numbers_is_not_shown(tmp_path: Path) -> None:
    finished(tmp_path, model_width=8)
    measured: dict[str, Any] = {}
    RESULTS["collect"](measured, tmp_path, [NAME], False)
    assert measured == {}
    record = json.loads((tmp_path / NAME / "recipe.json").read_text())
    metrics = json.loads((tmp_path / NAME / "metrics.json").read_text())
    page = RESULTS["page"]({NAME: {"recipe": record, "metrics": metrics}})
    assert f"| `{NAME}`" not in page
    assert f"`{NAME}`" in page.split("Nothing is claimed")[1]


def test_what_is_missing_or_stale_is_trained_and_what_is_whole_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def train_seeds(recipe: Any, seeds: int, path: Path, *, resume: bool) -> None:
        calls.append((recipe.name, seeds, resume))
        finished(path.parent, seeds=seeds if resume else 2)

    monkeypatch.setattr("edgewise.runs.seeds.train_seeds", train_seeds)
    measured: dict[str, Any] = {}
    for _ in range(3):
        RESULTS["collect"](measured, tmp_path, [NAME], True)
    assert calls == [(NAME, 10, False), (NAME, 10, True)], "whole after the second"
    assert len(measured[NAME]["metrics"]["test/accuracy"]["values"]) == 10


def test_how_often_a_run_saved_makes_no_other_recipe_of_it(tmp_path: Path) -> None:
    finished(tmp_path, trainer_save_every=60)
    measured: dict[str, Any] = {}
    RESULTS["collect"](measured, tmp_path, [NAME], False)
    assert NAME in measured
