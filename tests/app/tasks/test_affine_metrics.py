"""Metrics of all tasks on numbers after y -> a·y + b, against their definitions in float64."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from edgewise.app.files.targets import Target
from edgewise.app.kinds.series import Forecast
from edgewise.app.train import PropertyPrediction, Regression

torchmetrics = pytest.importorskip("torchmetrics")
SCALES = (1e-15, 1e-9, 1e-6, 1e-3, 1.0, 7.0, 1e3, 1e6)
LEVELS = (0.0, 1.0, -311_026.0, 1e6, 1e8)
EPSILON = float(np.finfo(float).eps)
MAPS = [
    (a, b)
    for a, b in itertools.product(SCALES, LEVELS)
    # The targets must differ in float64 after the map.
    if abs(b) * EPSILON < 1e-3 * a
]
"""Pairs of factor and offset."""


def numbers() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(40, 1, generator=generator, dtype=torch.double)
    return y + 0.9 * torch.randn(40, 1, generator=generator, dtype=torch.double), y


def measured(task, outputs: torch.Tensor, target: torch.Tensor) -> dict[str, float]:
    """Return the loss and all metrics after three batches of different sizes."""
    metrics = task.metrics()
    for rows in (slice(0, 1), slice(1, 25), slice(25, None)):
        for metric in metrics.values():
            metric.update(outputs[rows], target[rows])
    values = {name: float(metric.compute()) for name, metric in metrics.items()}
    return {"loss": float(task.loss(outputs, target))} | values


def tolerance(a: float, b: float) -> float:
    """Return the relative error that rounding a·y + b to float64 causes, with a margin."""
    return 1e-12 + 1e2 * EPSILON * abs(b) / a


@pytest.mark.slow(every=4)
@pytest.mark.parametrize(("a", "b"), MAPS)
@pytest.mark.parametrize("kind", ["mse", "mae", "huber"])
def test_metrics_of_regression(kind: str, a: float, b: float) -> None:
    outputs, y = numbers()
    power = {"mse": 2, "mae": 1, "huber": 2}[kind]
    factor = {"loss": a**power, "rmse": a, "mae": a, "r2": 1.0}
    plain = measured(Regression(kind=kind, delta=0.5), outputs, y)
    mapped = measured(Regression(kind=kind, delta=0.5 * a), a * outputs + b, a * y + b)
    expected = {name: factor[name] * value for name, value in plain.items()}
    assert mapped == pytest.approx(expected, rel=tolerance(a, b), abs=0)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize(("a", "b"), MAPS)
def test_metrics_of_properties(a: float, b: float) -> None:
    outputs, y = numbers()
    factor = {"loss": 1.0, "rmse": a, "mae": a, "r2": 1.0}

    def of(outputs: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
        target = Target("y", mean=float(y.mean()), std=float(y.std()))
        return measured(PropertyPrediction().with_targets([target]), outputs, y)

    expected = {name: factor[name] * value for name, value in of(outputs, y).items()}
    mapped = of(a * outputs + b, a * y + b)
    assert mapped == pytest.approx(expected, rel=tolerance(a, b), abs=0)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize(("a", "b"), MAPS)
@pytest.mark.parametrize("delta", [0.0, 0.5])
def test_metrics_of_forecasts(delta: float, a: float, b: float) -> None:
    forecast, y = (x.reshape(20, 2).repeat(2, 1) for x in numbers())
    seasonal = y.roll(1, 0)

    def of(a: float, b: float) -> dict[str, float]:
        target = torch.stack([a * y + b, a * seasonal + b, torch.full_like(y, a)], dim=-1)
        return measured(Forecast(delta=a * delta), a * forecast + b, target)

    factor = {"loss": 1.0, "mae": a, "seasonal_ratio": 1.0}
    expected = {name: factor[name] * value for name, value in of(1.0, 0.0).items()}
    assert of(a, b) == pytest.approx(expected, rel=tolerance(a, b), abs=0)


def test_r2_is_that_of_scikit_learn() -> None:
    r2_score = pytest.importorskip("sklearn.metrics").r2_score
    outputs, y = (x.reshape(20, 2) for x in numbers())
    cases = [
        (outputs, y),
        (outputs[:, :1] * 1e-4 - 311_026, y[:, :1] * 1e-4 - 311_026),
        (outputs, torch.ones_like(y)),
        (y, y),
        (torch.ones_like(y), torch.ones_like(y)),
    ]
    for predicted, target in cases:
        metric = Regression().metrics()["r2"]
        for rows in (slice(0, 7), slice(7, None)):
            metric.update(predicted[rows], target[rows])
        expected = r2_score(target.numpy(), predicted.numpy())
        assert float(metric.compute()) == pytest.approx(expected, rel=1e-6)


def test_r2_of_several_processes_is_that_of_all_examples() -> None:
    outputs, y = numbers()
    y = y - 311_026
    metrics = [Regression().metrics()["r2"] for _ in range(4)]
    for metric, rows in zip(
        metrics, (range(15), range(15, 16), range(16, 40), range(0)), strict=True
    ):
        if rows:
            metric.update(outputs[rows] - 311_026, y[rows])
    states = {name: [getattr(one, name) for one in metrics] for name in metrics[0]._defaults}
    joined = Regression().metrics()["r2"]
    joined.update(outputs, y)
    for name, values in states.items():
        setattr(joined, name, torch.stack(values))  # As torchmetrics gathers them.
    whole = Regression().metrics()["r2"]
    whole.update(outputs - 311_026, y)
    assert float(joined.compute()) == pytest.approx(float(whole.compute()), rel=1e-9)


def test_metrics_are_double_also_for_float32_outputs_and_after_a_reset() -> None:
    for name, metric in Regression().metrics().items():
        for _ in range(2):
            metric.update(
                torch.full((2, 1), 1e-25), torch.full((2, 1), 3e-25) * torch.eye(2)[:, :1]
            )
            value = metric.compute()
            assert value.dtype == torch.double, name
            assert math.isfinite(float(value)), name
            assert float(value) != 0, name
            metric.reset()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_curves_of_classes_depend_on_the_order_of_logits_only(scale: float) -> None:
    """In float32, and for large logits in float64, different probabilities become equal."""
    sklearn = pytest.importorskip("sklearn.metrics")
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(2, (60, 1), generator=generator).double()
    logits = 2 * truth - 1 + 2 * torch.randn(60, 1, generator=generator).double()
    task = PropertyPrediction().with_targets([Target("y", ("no", "yes"), counts=(30, 30))])
    values = measured(task, (scale * logits + 20 * (scale > 1)).float(), truth)
    y, order = truth[:, 0].numpy(), logits[:, 0].numpy()
    assert values["roc_auc"] == pytest.approx(sklearn.roc_auc_score(y, order), rel=1e-12)
    expected = sklearn.average_precision_score(y, order)
    assert values["average_precision"] == pytest.approx(expected, rel=1e-12)
