"""Metrics of each example: their mean is the metric of the split."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgewise.app.files.targets import Target
from edgewise.app.kinds.items import Recommendation
from edgewise.app.kinds.nodes import Consistency
from edgewise.app.train import Classification, PropertyPrediction, Regression, Tagging, Task

pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")

from torchmetrics import Metric

from edgewise.app.train.split_metrics import SplitMetrics

M = 12
CLASSES = torch.arange(M) % 3
KNOWN = torch.where(torch.arange(M) < 8, CLASSES, -100)
NUMBERS = torch.arange(M)[:, None] / 3
BINARY = torch.where(torch.arange(M) == 4, torch.nan, torch.arange(M) % 2)[:, None]
MISSING = NUMBERS.index_fill(0, torch.tensor([2, 5]), torch.nan)
HELD_OUT = torch.eye(M, dtype=torch.long)[:, :7] - torch.eye(M, dtype=torch.long)[:, 2:9]


SAMPLED = torch.stack([CLASSES, CLASSES + 2], dim=1) - torch.arange(M)[:, None] // 10


@pytest.mark.parametrize(
    ("task", "width", "target", "wanted"),
    [
        (Classification(), 3, CLASSES, {"accuracy"}),
        (Consistency(), 3, KNOWN, {"accuracy"}),
        (Tagging(), 3, CLASSES, set()),
        (Regression(), 1, NUMBERS, {"rmse", "mae"}),
        (Regression(), 3, NUMBERS + torch.arange(3), {"rmse", "mae"}),
        (PropertyPrediction().with_targets([Target("y")]), 1, MISSING, {"rmse", "mae"}),
        (PropertyPrediction().with_targets([Target("y", ("a", "b"))]), 1, BINARY, {"accuracy"}),
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
        (Recommendation(k=2), 7, HELD_OUT, {"recall@2", "ndcg@2"}),
        (Recommendation(k=2), 5, SAMPLED, {"recall@2", "ndcg@2"}),
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
    found, examples = metrics.finish(), metrics.per_example
    assert examples.keys() == (wanted | {"target"} if wanted else set())
    metrics.add(outputs[:5], target[:5])
    metrics.finish()
    assert all(len(values) <= 5 for values in metrics.per_example.values()), "a new test"
    for name in wanted:
        mean = float(examples[name].mean()) ** (0.5 if name == "rmse" else 1)
        assert mean == pytest.approx(found[name], abs=1e-5)
        assert len(examples[name]) == len(examples["target"]) <= M


def test_a_task_with_metrics_of_its_own_needs_its_own_per_example_metrics() -> None:
    from torchmetrics.classification import MultilabelAccuracy

    class Several(Classification):
        def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
            return torch.nn.functional.binary_cross_entropy_with_logits(outputs, target.float())

        def metrics(self) -> dict[str, Metric]:
            return {"accuracy": MultilabelAccuracy(3)}

    metrics = SplitMetrics(Several(), keep_examples=True)
    metrics.add(torch.randn(M, 3), torch.ones(M, 3, dtype=torch.long))
    metrics.finish()
    assert metrics.per_example == {}
