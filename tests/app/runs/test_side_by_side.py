"""Several trainings at once: the same numbers as one after the other, and one end for all."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch

from edgewise._utils.errors import ArgumentError, EdgewiseError, Interrupted
from edgewise.app.kinds import find
from edgewise.app.runs import compare, with_values
from edgewise.app.runs.side_by_side import side_by_side
from edgewise.app.train.process import interruptible
from tests.errors import refused

TINY = {
    "model.width": 8,
    "model.depth": 1,
    "model.heads": 1,
    "data.count": 64,
    "data.tested": 32,
    "trainer.epochs": 2,
    "trainer.accelerator": "cpu",
}
GRAPHS = ["empty()", "window(1)", "complete()"]


def told(path: Path, text: str) -> None:
    path.write_text(f"{text} {torch.get_num_threads()}")


def fails(text: str) -> None:
    raise ArgumentError("x", expected="y", got=text, remedy="try z")


def waits(path: Path) -> None:
    with interruptible() as request:
        path.touch()
        while request.signal is None:
            time.sleep(0.02)
        raise Interrupted(request.signal)


def works_alone(place: Path) -> None:
    place.mkdir()  # an error if another job is there
    time.sleep(0.2)
    place.rmdir()


def vanishes() -> None:
    os._exit(3)


@pytest.mark.slow
def test_each_job_is_done_on_one_thread(tmp_path: Path) -> None:
    side_by_side([(told, (tmp_path / name, name)) for name in "abc"], 2)
    assert {name: (tmp_path / name).read_text() for name in "abc"} == {
        name: f"{name} 1" for name in "abc"
    }


@pytest.mark.slow
def test_one_worker_runs_one_job_at_a_time(tmp_path: Path) -> None:
    side_by_side([(works_alone, (tmp_path / "busy",))] * 2, 1)


def test_what_failed_is_said_and_the_others_are_stopped(tmp_path: Path) -> None:
    later = tmp_path / "later"
    with pytest.raises(EdgewiseError, match="expected y; got 7"):
        side_by_side([(fails, ("7",)), (waits, (tmp_path / "w",)), (told, (later, "x"))], 2)
    assert not later.exists()
    with pytest.raises(EdgewiseError, match="training process was killed"):
        side_by_side([(vanishes, ())], 1)


def test_a_request_to_stop_reaches_all(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]

    def ask() -> None:
        while not all(path.exists() for path in paths):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    with pytest.raises(Interrupted) as stopped:
        side_by_side([(waits, (path,)) for path in paths], 2)
    assert stopped.value.signal == signal.SIGINT


@pytest.mark.slow
def test_a_comparison_over_seeds_is_the_same_side_by_side(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    recipe = with_values(find("digit-rows"), TINY)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        apart = compare(recipe, "model.graph", GRAPHS, tmp_path / "apart", seeds=2)
    finally:
        torch.set_num_threads(threads)
    beside = compare(recipe, "model.graph", GRAPHS, tmp_path / "beside", seeds=2, workers=2)
    for one, other in zip(apart.outcomes, beside.outcomes, strict=True):
        assert one.label == other.label
        assert one.values("test/loss") == other.values("test/loss")
        assert len(set(one.values("test/loss"))) == 2
        assert one.std("test/loss") > 0
        assert [run.name for run in other.runs] == ["seed-0", "seed-1"]
        summary = json.loads((other.runs[0].parent / "metrics.json").read_text())
        assert summary["test/loss"]["mean"] == pytest.approx(other.mean("test/loss"))
    again = compare(
        recipe, "model.graph", GRAPHS, tmp_path / "beside", seeds=2, workers=2, resume=True
    )
    assert [o.metrics for o in again.outcomes] == [o.metrics for o in beside.outcomes]


@pytest.mark.parametrize("option", ["seeds", "workers"])
def test_none_of_them(option: str, tmp_path: Path) -> None:
    with refused(f"--{option}", expected="at least 1", got="0", remedy="choose"):
        compare(find("digit-rows"), "seed", ["1"], tmp_path / "x", **{option: 0})
    assert not (tmp_path / "x").exists()
