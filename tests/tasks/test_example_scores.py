"""Scores of each example: their mean is the metric of the split."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgewise.targets import Target
from edgewise.tasks import (
    Classification,
    Consistency,
    Forecast,
    PropertyPrediction,
    Recommendation,
    Regression,
    Task,
)

pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")

from edgewise.training.split_metrics import SplitMetrics

M = 12
CLASSES = torch.arange(M) % 3
KNOWN = torch.where(torch.arange(M) < 8, CLASSES, -100)
NUMBERS = torch.arange(M)[:, None] / 3
MISSING = NUMBERS.index_fill(0, torch.tensor([2, 5]), torch.nan)
HELD_OUT = torch.eye(M, dtype=torch.long)[:, :7] - torch.eye(M, dtype=torch.long)[:, 2:9]


@pytest.mark.parametrize(
    ("task", "width", "target", "wanted"),
    [
        (Classification(), 3, CLASSES, {"accuracy"}),
        (Consistency(), 3, KNOWN, {"accuracy"}),
        (Regression(), 1, NUMBERS, {"rmse", "mae"}),
        (PropertyPrediction().with_targets([Target("y")]), 1, MISSING, {"rmse", "mae"}),
        (
            PropertyPrediction().with_targets([Target("y", ("a", "b", "c"))]),
            3,
            CLASSES[:, None].float(),
            {"accuracy"},
        ),
        (
            PropertyPrediction().with_targets([Target("y"), Target("z")]),
            2,
            NUMBERS.expand(M, 2),
            set(),
        ),
        (Forecast(), 4, torch.rand(M, 4, 2), {"mae"}),
        (Recommendation(k=2), 7, HELD_OUT, {"recall@2", "ndcg@2"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Task) else "",
)
def test_the_mean_over_examples_is_the_metric(
    task: Task, width: int, target: Tensor, wanted: set[str]
) -> None:
    torch.manual_seed(0)
    outputs = torch.randn(M, width)
    metrics = SplitMetrics(task, keep_examples=True)
    for part in torch.arange(M).split(5):
        metrics.add(outputs[part], target[part])
    found, scores = metrics.finish(), metrics.example_scores()
    assert scores.keys() == wanted
    for name, each in scores.items():
        mean = float(each.mean()) ** (0.5 if name == "rmse" else 1)
        assert mean == pytest.approx(found[name], abs=1e-5)
