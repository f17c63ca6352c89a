"""Property prediction: numbers and classes in target columns that may have missing values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError, require
from edgewise.app.files.targets import Target, probabilities, split_outputs
from edgewise.app.train.task import Task
from edgewise.app.train.tasks.regression import Regression

if TYPE_CHECKING:
    from torchmetrics import Metric

ClassWeight = Literal["none", "balanced"]


def balanced_weights(counts: Sequence[int], classes: Tensor) -> Tensor:
    """Return the weight of each example, the inverse frequency of its class."""
    number = torch.tensor(counts, device=classes.device)
    return (number.sum() / (len(number) * number.clamp(min=1)))[classes]


@dataclass(frozen=True)
class PropertyPrediction(Regression):
    """Prediction of the target columns of a data set: numbers, classes, or both.

    Targets ``[M, T]`` of M examples are numbers or class indices, and NaN for missing values.
    Outputs ``[M, sum of widths]`` are split with
    :func:`edgewise.app.files.targets.split_outputs`. The loss is the mean over all values that are
    not missing. For a number it is the loss of :class:`Regression`, relative to the column's
    standard deviation; for two classes, the binary cross-entropy; for more classes, the
    cross-entropy.

    Metrics of numbers are those of :class:`Regression`. Metrics of classes are ROC-AUC, average
    precision (area under the precision-recall curve), accuracy, the Brier score and the expected
    calibration error. With several columns, a metric is the mean over the columns that have it;
    ``NAME/rmse`` is the metric of the column NAME.

    Attributes:
        kind: loss function for numbers: ``"mse"``, ``"mae"`` or ``"huber"``.
        delta: threshold of the Huber loss, in the unit of the target.
        class_weight: ``"balanced"`` weights each class by the inverse of its frequency in the
            training set, as in scikit-learn. The predicted probabilities are then not calibrated.
        targets: descriptions of the target columns, which the data determine.

    Example:
        >>> import torch
        >>> from edgewise.app.train import PropertyPrediction
        >>> from edgewise.app.files.targets import Target
        >>> targets = Target("logS", mean=0.0, std=2.0), Target("toxic", ("no", "yes"))
        >>> task = PropertyPrediction().with_targets(targets)
        >>> outputs, target = torch.zeros(2, 2), torch.tensor([[2.0, 1.0], [torch.nan, 0.0]])
        >>> round(task.loss(outputs, target).item(), 4)
        0.7954
    """

    class_weight: ClassWeight = "none"
    targets: tuple[Target, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("task.class_weight", self.class_weight, get_args(ClassWeight))

    def with_targets(
        self,
        targets: Sequence[Target],
        class_counts: Sequence[int] = (),  # noqa: ARG002
    ) -> Task:
        task = replace(self)
        object.__setattr__(task, "targets", tuple(targets))
        return task

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        total, count = outputs.sum() * 0, 0
        for column, logits, values in self._columns(outputs, target):
            total = total + self._losses(column, logits, values).sum()
            count += len(values)
        return total / max(count, 1)

    def count(self, outputs: Tensor, target: Tensor) -> int:  # noqa: ARG002
        return int(target.isfinite().sum())

    def _columns(self, outputs: Tensor, target: Tensor) -> Iterator[tuple[Target, Tensor, Tensor]]:
        """Yield each target column, with outputs and values of the examples that have a value."""
        if not self.targets:
            raise ArgumentError(
                "task",
                expected="descriptions of the target columns",
                got="none, because neither with_targets nor the data set gave them",
                remedy="call task.with_targets, or use tasks.Regression or tasks.Classification",
            )
        outputs_of_columns = split_outputs(self.targets, outputs)
        for column, logits, values in zip(
            self.targets, outputs_of_columns, target.unbind(1), strict=True
        ):
            has_value = ~values.isnan()
            yield column, logits[has_value], values[has_value]

    def _losses(self, target: Target, outputs: Tensor, values: Tensor) -> Tensor:
        if not target.classes:
            return self._losses_of(outputs[:, 0], values, target.std)
        if target.width == 1:
            labels = values.to(outputs.dtype)
            losses = F.binary_cross_entropy_with_logits(outputs[:, 0], labels, reduction="none")
        else:
            losses = F.cross_entropy(outputs, values.long(), reduction="none")
        if self.class_weight == "balanced":
            losses = losses * balanced_weights(target.counts, values.long())
        return losses

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="metrics of properties")
        from edgewise.app.train.tasks.property_metrics import property_metrics

        # The data are not loaded yet while the monitored metric is checked for the first time.
        return property_metrics(self.targets or (Target("number"), Target("class", ("0", "1"))))

    def per_example_metrics(self, outputs: Tensor, target: Tensor) -> dict[str, Tensor]:
        if len(self.targets) > 1:  # A metric is then a mean over columns.
            return {}
        [(column, logits, values)] = self._columns(outputs, target)
        if not column.classes:
            return super().per_example_metrics(logits, values[:, None])
        right = probabilities(column, logits).argmax(-1) == values
        return {"target": values, "accuracy": right}
