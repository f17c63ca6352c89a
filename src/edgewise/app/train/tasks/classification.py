"""Single-label classification: cross-entropy and accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice, check_range
from edgewise._utils.errors import ArgumentError, require
from edgewise.app.files.targets import Target
from edgewise.app.train.batches import UNLABELLED
from edgewise.app.train.task import Task
from edgewise.app.train.tasks.property_prediction import (
    ClassWeight,
    PropertyPrediction,
    balanced_weights,
)

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
        class_weight: ``"balanced"`` weights each class by the inverse of its frequency in the
            training set, as in scikit-learn, and adds the metric ``balanced_accuracy``, the mean of
            the accuracies on the examples of each class. The predicted probabilities are then not
            calibrated.
        class_counts: number of training examples of each class, which the data determine.

    Example:
        >>> import torch
        >>> from edgewise.app.train import Classification
        >>> task = Classification()
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])  # two examples
        >>> round(task.loss(logits, torch.tensor([0, 1])).item(), 4)
        0.2201
        >>> list(task.metrics())
        ['accuracy']
    """

    label_smoothing: float = 0.0
    class_weight: ClassWeight = "none"
    class_counts: tuple[int, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        check_range(
            "task.label_smoothing", self.label_smoothing, "choose for example 0.1", least=0, below=1
        )
        check_choice("task.class_weight", self.class_weight, get_args(ClassWeight))

    def with_targets(self, targets: Sequence[Target], class_counts: Sequence[int] = ()) -> Task:
        if targets:
            return PropertyPrediction(class_weight=self.class_weight).with_targets(targets)
        task = replace(self)
        object.__setattr__(task, "class_counts", tuple(class_counts))
        return task

    def check(self, model: nn.Module, batch: Any) -> None:  # noqa: ARG002 - part of the interface
        if (batch.target == UNLABELLED).any():
            raise ArgumentError(
                "data.unlabelled",
                expected="false, because this task has no loss for nodes without a label",
                got="true",
                remedy="use a recipe whose task is consistency, such as nodes-few-labels",
            )

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        if outputs.dim() > target.dim() + 1:
            raise ArgumentError(
                "model",
                expected="one row of scores for each target, [M, classes]",
                got=f"shape {list(outputs.shape)} for targets {list(target.shape)}",
                remedy="pool the outputs to one row per target; for a model with several outputs "
                "per node in training, such as grand, use tasks.Consistency",
            )
        if self.class_weight == "none":
            return F.cross_entropy(outputs, target, label_smoothing=self.label_smoothing)
        if not self.class_counts:
            raise ArgumentError(
                "task.class_weight",
                expected="none, for data that do not count the examples of each class",
                got=repr(self.class_weight),
                remedy="omit task.class_weight, or call task.with_targets((), class_counts)",
            )
        losses = F.cross_entropy(
            outputs, target, label_smoothing=self.label_smoothing, reduction="none"
        )
        return (losses * balanced_weights(self.class_counts, target)).mean()

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="accuracy")
        from torchmetrics.classification import MulticlassAccuracy

        # Labels were checked when the data were loaded.
        found: dict[str, Metric] = {
            "accuracy": MulticlassAccuracy(average="micro", validate_args=False)
        }
        if self.class_weight == "balanced":  # The classes are not counted before data are loaded.
            found["balanced_accuracy"] = MulticlassAccuracy(
                num_classes=len(self.class_counts) or 2, average="macro", validate_args=False
            )
        return found

    def per_example_metrics(self, outputs: Tensor, target: Tensor) -> dict[str, Tensor]:
        return {"target": target, "accuracy": outputs.argmax(-1) == target}

    def possible_metrics(self) -> dict[str, Metric]:
        return PropertyPrediction().metrics() | self.metrics()
