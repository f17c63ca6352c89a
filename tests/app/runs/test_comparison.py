"""Which of the compared values is the best one."""

from __future__ import annotations

import math

import pytest

from edgewise.app.kinds import find
from edgewise.app.runs import with_values
from edgewise.app.runs.comparison import Comparison, Outcome


def outcome(value: int, accuracy: list[float], loss: float) -> Outcome:
    metrics = [{"val/accuracy": number, "val/loss": loss} for number in accuracy]
    return Outcome(value, [], metrics, [])


@pytest.mark.parametrize(
    ("monitor", "mode", "best"), [("val/accuracy", "max", 2), ("val/loss", "min", 3)]
)
def test_the_best_mean_of_the_monitored_metric(monitor: str, mode: str, best: int) -> None:
    fields = {"trainer.monitor": monitor, "trainer.mode": mode}
    outcomes = [
        outcome(0, [math.nan], math.nan),
        outcome(1, [0.7, 0.7], 0.3),
        outcome(2, [0.9, 0.7], 0.4),
        outcome(3, [0.9, 0.1], 0.2),
    ]
    recipe = with_values(find("digit-rows"), fields)
    assert Comparison(recipe, "seed", outcomes).best.value == best


def test_equal_means_are_ranked_by_loss() -> None:
    recipe = with_values(find("digit-rows"), {"trainer.monitor": "val/accuracy"})
    outcomes = [outcome(1, [0.8], 0.5), outcome(2, [0.7, 0.9], 0.4), outcome(3, [0.8], 0.6)]
    assert Comparison(recipe, "seed", outcomes).best.value == 2
