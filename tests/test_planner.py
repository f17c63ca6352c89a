"""The table of costs can be measured, read again and preprocessing: ``benchmarks/planner.py``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import planner
from edgewise.engines import ENGINES
from edgewise.engines.costs import COSTS, TABLE, Costs

TRUE = {"call": 2e-4, "pair": 3e-9, "product": 5e-11, "never": 1.0}


def times(count: int, disturbed: float = 0.0) -> list[tuple[dict[str, float], float]]:
    """What takes as long as it should, but for a tenth that something else has delayed."""
    rng = np.random.default_rng(0)
    samples = []
    for number in range(count):
        amounts = {"call": 1.0, "pair": float(10 ** rng.uniform(2, 7)), "never": 0.0}
        amounts["product"] = amounts["pair"] * int(rng.choice([16, 64, 128]))
        seconds = sum(TRUE[name] * amount for name, amount in amounts.items())
        delay = 1 + disturbed * (number % 10 == 0)
        samples.append((amounts, seconds * delay * float(rng.uniform(0.98, 1.02))))
    return samples


@pytest.mark.parametrize("disturbed", [0.0, 1.5])
def test_the_fit_finds_what_things_cost(disturbed: float) -> None:
    found = planner.fit(times(200, disturbed), dict.fromkeys(TRUE, 7.0))
    assert set(found) == {"call", "pair", "product"}  # the others keep what they had
    for name, cost in found.items():
        assert cost == pytest.approx(TRUE[name], rel=0.05)


def small_tasks(dtype: torch.dtype = torch.float32) -> list[planner.Task]:
    tasks = [*planner.tasks("cpu", "16 ", quick=True, dtype=dtype)]
    return [task for task in tasks if task.graph.num_targets == 16 and task.heads == 1]


def test_every_kind_of_problem_runs_and_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "BUDGET", 0.0)
    tasks = {(task.term, type(task.graph)): task for task in small_tasks()}.values()
    assert {task.term for task in tasks} >= set(planner.TERMS)
    rows = [planner.measured(task) for task in tasks]
    printed = tmp_path / "times.txt"
    printed.write_text("nodes dense, ms\n" + "\n".join(row.line(COSTS["cpu"]) for row in rows))
    again = list(planner.read(printed, tasks))
    assert len(again) == len(rows)
    for row, other in zip(rows, again, strict=True):
        assert row.works == other.works
        assert "reference" in row.works
        for engine, seconds in row.times.items():
            assert other.times[engine] == pytest.approx(seconds, abs=0.51e-6)


def row(name: str, **seconds: float) -> planner.Row:
    works: dict[str, Any] = {e: ("merge", {"call": cost}) for e, cost in seconds.items()}
    return planner.Row(name, {"dense": 1.0, "rows": 1.2, "reference": 3.0}, works)


def test_regret_is_what_the_choice_takes_longer() -> None:
    costs = Costs("", True, {"merge": {"call": 1.0}})
    assert row("right", dense=1, rows=2, reference=3).regret(costs) == 0
    assert row("wrong", dense=3, rows=2, reference=9).regret(costs) == pytest.approx(0.2)
    said = planner.judged("x", [0.0, 0.2, 2.0], [row("", dense=1)] * 3)
    assert "33.3% within 10%" in said
    assert "1 with a regret above 25 %" in said
    assert "73.3% extra time in total" in said


@pytest.mark.slow(after=1)
@pytest.mark.parametrize(
    ("dtype", "entry"), [("float32", "cpu"), ("bfloat16", "cpu, 16 bits")], ids=["32", "16"]
)
def test_a_refit_writes_the_table_for_one_kind_of_device(
    dtype: str, entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "BUDGET", 0.0)
    monkeypatch.setattr(planner, "TABLE", tmp_path / "costs.json")
    monkeypatch.setattr(planner, "NODES", (16,))
    measured = tmp_path / "times.txt"
    tasks = [task for task in small_tasks(planner.DTYPES[dtype]) if task.width == 8]
    lines = [planner.measured(task).line(COSTS["cpu"]) for task in tasks]
    measured.write_text("\n".join(lines))
    command = [
        "planner",
        "--read",
        str(measured),
        "--refit",
        "--origin",
        "a test",
        "--dtype",
        dtype,
    ]
    monkeypatch.setattr(sys, "argv", command)
    threads = torch.get_num_threads()
    planner.main()
    torch.set_num_threads(threads)
    written = json.loads((tmp_path / "costs.json").read_text())
    before = json.loads(TABLE.read_text())
    assert written[entry]["origin"] == "a test"
    assert written[entry]["seconds"] != before["cpu"]["seconds"]
    assert {k: v for k, v in written.items() if k != entry} == {
        k: v for k, v in before.items() if k != entry
    }
    assert replace(COSTS["cpu"], **written[entry]).of([("merge", {"call": 1})])[0] > 0
    for engine, form in {"rows": "rows", "dense": "dense fused"}.items():
        assert engine in ENGINES
        assert all(cost >= 0 for cost in written[entry]["seconds"][form].values())
