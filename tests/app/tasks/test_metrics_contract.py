"""Metrics of every task: called once per batch, and on NaN, infinite and wrongly shaped outputs."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.targets import Target
from edgewise.app.kinds.items import Recommendation
from edgewise.app.kinds.links import LinkPrediction
from edgewise.app.kinds.nodes import Consistency
from edgewise.app.kinds.series import Forecast
from edgewise.app.kinds.translation import Translation
from edgewise.app.kinds.triples import TriplePrediction
from edgewise.app.train import Classification, PropertyPrediction, Regression, Task
from tests.errors import case

pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

M, STEP = 12, 4
ROW = torch.arange(M)
CLASSES = ROW % 3
NUMBERS = torch.sin(ROW.double())[:, None]
MISSING = NUMBERS.index_fill(0, torch.tensor([4, 5, 6, 7]), torch.nan)  # a batch without values
COLUMNS = torch.cat([MISSING, (ROW[:, None] % 2).double(), CLASSES[:, None].double()], dim=1)
TARGETS = (Target("y"), Target("two", ("a", "b")), Target("three", ("a", "b", "c")))
FORECASTS = torch.stack([NUMBERS, NUMBERS.roll(1, 0), torch.ones(M, 1)], dim=-1)
TASKS: dict[str, tuple[Task, tuple[int, ...], Tensor]] = {
    "classification": (Classification(), (3,), CLASSES),
    "consistency": (Consistency(), (3,), CLASSES),
    "forecast": (Forecast(), (1,), FORECASTS),
    "links": (LinkPrediction(), (), ROW % 2),
    "numbers": (Regression(), (2,), NUMBERS.expand(M, 2)),
    "column with gaps": (PropertyPrediction().with_targets(TARGETS[:1]), (1,), MISSING),
    "one class per batch": (
        PropertyPrediction().with_targets(TARGETS[1:2]),
        (1,),
        (ROW[:, None] // STEP % 2).double(),
    ),
    "columns": (PropertyPrediction().with_targets(TARGETS), (5,), COLUMNS),
    "ranks": (Recommendation(k=2), (7,), torch.eye(M, dtype=torch.long)[:, :7]),
    "triples": (TriplePrediction(), (7,), torch.stack([ROW % 7, (ROW + 3) % 7], 1)),
}


def outputs_of(width: tuple[int, ...]) -> Tensor:
    return torch.randn(M, *width, generator=torch.Generator().manual_seed(0))


def assert_called_per_batch(metrics: Any, batches: list[tuple[Any, Any]], fresh: Any) -> None:
    """Compare calls, which return the value of a batch, with new metrics that are updated."""
    called = [
        {name: float(metric(*batch)) for name, metric in metrics.items()} for batch in batches
    ]
    for values, updates in [
        *((values, [batch]) for values, batch in zip(called, batches, strict=True)),
        ({name: float(metric.compute()) for name, metric in metrics.items()}, batches),
    ]:
        expected = fresh()
        for metric in expected.values():
            for batch in updates:
                metric.update(*batch)
        expected = {name: float(metric.compute()) for name, metric in expected.items()}
        assert values == pytest.approx(expected, nan_ok=True, rel=1e-6)


@pytest.mark.parametrize("name", TASKS)
def test_a_call_returns_the_metric_of_the_batch_and_adds_it(name: str) -> None:
    task, width, target = TASKS[name]
    pairs = zip(outputs_of(width).split(STEP), target.split(STEP), strict=True)
    assert_called_per_batch(task.metrics(), list(pairs), task.metrics)


def test_a_call_of_a_metric_of_texts() -> None:
    pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")
    texts = ["a b c d e", "a b d c e", "e d c b a"]
    batches = [(texts, SimpleNamespace(references=texts[i:] + texts[:i])) for i in (2, 0, 1)]
    task = Translation()
    assert_called_per_batch(task.generation_metrics(), batches, task.generation_metrics)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", TASKS)
def test_outputs_that_are_not_finite_raise_no_error(name: str, number: float) -> None:
    """Training then ends with an error that names the learning rate."""
    task, width, target = TASKS[name]
    outputs = outputs_of(width)
    outputs[1:3] = number
    metrics = task.metrics()
    for metric in metrics.values():
        metric.update(outputs, target)
    for key, metric in metrics.items():
        with case(key):
            value = float(metric.compute())
            if math.isnan(number) and key in ("rmse", "mae", "r2", "roc_auc", "average_precision"):
                assert math.isnan(value) or name == "columns"


def test_infinite_logits_have_the_highest_ranks() -> None:
    logits, classes = (
        torch.tensor([[math.inf], [1.0], [2.0], [-math.inf]]),
        torch.tensor([1, 1, 0, 0]),
    )
    metrics = PropertyPrediction().with_targets(TARGETS[1:2]).metrics()
    for name, value in {"roc_auc": 0.75, "average_precision": (1 + 2 / 3) / 2}.items():
        metrics[name].update(logits, classes[:, None].double())
        assert float(metrics[name].compute()) == pytest.approx(value)


@pytest.mark.parametrize(
    ("task", "target"),
    [
        *((Regression(kind=kind), NUMBERS[:, 0]) for kind in ("mse", "mae", "huber")),
        (Forecast(), FORECASTS[:, 0]),
        (Forecast(delta=0), FORECASTS[:, 0]),
    ],
    ids=lambda value: str(value) if isinstance(value, Task) else "",
)
def test_outputs_and_targets_of_other_shapes_are_not_broadcast(task: Task, target: Tensor) -> None:
    outputs = outputs_of((1,))
    with pytest.raises(ArgumentError, match="outputs"):
        task.loss(outputs, target)
    for name, metric in task.metrics().items():
        with case(name), pytest.raises(ArgumentError, match="outputs"):
            metric.update(outputs, target)
    if isinstance(task, Regression):
        with pytest.raises(ArgumentError, match="outputs"):
            task.per_example_metrics(outputs, target)


@pytest.mark.parametrize("shape", [(0,), (0, 1)])
def test_an_empty_batch_changes_no_metric_of_numbers(shape: tuple[int, ...]) -> None:
    outputs = outputs_of((1,)).reshape(M, *shape[1:])
    target = NUMBERS.reshape(outputs.shape)
    for name, metric in Regression().metrics().items():
        metric.update(outputs[:0], target[:0])
        metric.update(outputs, target)
        expected = Regression().metrics()[name]
        expected.update(outputs, target)
        assert float(metric.compute()) == float(expected.compute()), name
