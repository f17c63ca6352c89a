"""Regression: losses and metrics in the unit of the targets, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from edgewise.app.train import Regression
from tests.errors import refused

OUTPUT, TARGET = torch.tensor([[1.0], [2.0], [6.0]]), torch.tensor([[1.0], [4.0], [4.0]])


@pytest.mark.parametrize(
    ("kind", "expected"), [("mse", 8 / 3), ("mae", 4 / 3), ("huber", 2 * (1 * (2 - 0.5)) / 3)]
)
def test_losses(kind: str, expected: float) -> None:
    assert float(Regression(kind=kind).loss(OUTPUT, TARGET)) == pytest.approx(expected)


def test_metrics_over_several_batches() -> None:
    values = {}
    for name, metric in Regression().metrics().items():
        metric.update(OUTPUT[:1], TARGET[:1])
        metric.update(OUTPUT[1:], TARGET[1:])
        values[name] = float(metric.compute())
    assert values == pytest.approx({"rmse": (8 / 3) ** 0.5, "mae": 4 / 3, "r2": 1 - 8 / 6})


def test_one_target_has_errors_and_no_r2() -> None:
    metrics = Regression().metrics()
    for metric in metrics.values():
        metric.update(OUTPUT[1:2], TARGET[1:2])
    values = {name: float(metric.compute()) for name, metric in metrics.items()}
    assert values == pytest.approx({"rmse": 2.0, "mae": 2.0, "r2": math.nan}, nan_ok=True)


def test_an_unknown_loss_suggests_the_nearest() -> None:
    with refused("task.kind", expected="mse", got="'rmse'", remedy="'mse'"):
        Regression(kind="rmse")


def test_hubers_delta_is_above_zero() -> None:
    with refused("task.delta", expected="above 0", got="0", remedy="choose"):
        Regression(kind="huber", delta=0)
