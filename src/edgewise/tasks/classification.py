"""Single-label classification: cross-entropy and accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from edgewise.arguments import check_share
from edgewise.base_task import Task
from edgewise.errors import ArgumentError, require
from edgewise.targets import Target
from edgewise.tasks.property_prediction import PropertyPrediction

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Classification(Task):
    """Single-label classification, with logits ``[M, classes]`` and class indices ``[M]``.

    If the data describe target columns, such as several labels of a text or a number for each node,
    :class:`PropertyPrediction` replaces this task.

    The loss raises an ``ArgumentError`` if there are several rows of logits for one target.

    Attributes:
        label_smoothing: fraction of the target probability that is spread evenly over all classes.

    Example:
        >>> import torch
        >>> from edgewise import tasks
        >>> task = tasks.Classification()
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])  # two examples
        >>> round(task.loss(logits, torch.tensor([0, 1])).item(), 4)
        0.2201
        >>> list(task.metrics())
        ['accuracy']
    """

    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_share("task.label_smoothing", self.label_smoothing, "choose for example 0.1")

    def with_targets(self, targets: Sequence[Target]) -> Task:
        return PropertyPrediction().with_targets(targets) if targets else self

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        if outputs.dim() > target.dim() + 1:
            raise ArgumentError(
                "model",
                expected="one row of scores for each target, [M, classes]",
                got=f"shape {list(outputs.shape)} for targets {list(target.shape)}",
                remedy="pool the outputs to one row per target; for a model with several outputs "
                "per node in training, such as grand, use tasks.Consistency",
            )
        return F.cross_entropy(outputs, target, label_smoothing=self.label_smoothing)

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="accuracy")
        from torchmetrics.classification import MulticlassAccuracy

        # Labels were checked when the data were loaded.
        return {"accuracy": MulticlassAccuracy(average="micro", validate_args=False)}

    def possible_metrics(self) -> dict[str, Metric]:
        return PropertyPrediction().metrics() | self.metrics()
