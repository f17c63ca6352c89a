"""Metrics of target columns that may have missing values, from torchmetrics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import (
    BinaryAccuracy,
    BinaryAUROC,
    BinaryAveragePrecision,
    BinaryCalibrationError,
    MulticlassAccuracy,
    MulticlassAUROC,
    MulticlassAveragePrecision,
    MulticlassCalibrationError,
)
from torchmetrics.regression import MeanAbsoluteError, MeanSquaredError

from edgewise.targets import Target, probabilities
from edgewise.tasks.regression_metrics import R2

CURVES = ("roc_auc", "average_precision")
"""Metrics that are undefined unless each class has an example."""


class BrierScore(MeanSquaredError):  # noqa: N818
    """Mean squared difference of predicted probabilities and true classes (Brier, 1950).

    For two classes, it is that of the second class alone. For more classes, it is the sum over all
    classes.
    """

    def update(self, chances: Tensor, classes: Tensor) -> None:
        """Add probabilities ``[M]`` or ``[M, classes]``, and true class indices ``[M]``."""
        truth = classes if chances.dim() == 1 else F.one_hot(classes, self.num_outputs)
        super().update(chances, truth.float())

    def compute(self) -> Tensor:
        """Return the Brier score."""
        return super().compute().sum()


class OfTarget(Metric):
    """Metric of one target column, over the examples that have a value; NaN if it is undefined.

    Args:
        metric: metric that is updated with numbers ``[M]``, with probabilities ``[M]`` of the
            second of two classes, or with probabilities ``[M, classes]``.
        targets: descriptions of all target columns.
        place: index of the column among them.
        least: minimum number of classes with examples; with fewer, the metric is NaN.
    """

    full_state_update = False
    seen: Tensor

    def __init__(
        self, metric: Metric, targets: Sequence[Target], place: int, least: int = 1
    ) -> None:
        super().__init__()
        self.metric, self.target, self.place, self.least = metric, targets[place], place, least
        self.start = sum(target.width for target in targets[:place])
        count = max(len(self.target.classes), 1)
        self.add_state("seen", torch.zeros(count, dtype=torch.long), dist_reduce_fx="sum")

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add model outputs and targets of all columns: ``[M, sum of widths]`` and ``[M, T]``."""
        one, values = self.target, target[:, self.place]
        known = ~values.isnan()
        if not known.any():
            return
        values = values[known]
        given = outputs[:, self.start : self.start + one.width][known]
        if not one.classes:
            self.seen += len(values)
            self.metric.update(given[:, 0], values)
            return
        self.seen += torch.bincount(values.long(), minlength=len(self.seen))
        chances = probabilities(one, given.float())
        self.metric.update(chances if one.width > 1 else chances[:, 1], values.long())

    @property
    def wrapped_metric(self) -> Metric:
        """The metric of torchmetrics. Its ``higher_is_better`` tells the better direction."""
        return self.metric

    def compute(self) -> Tensor:
        """Return the value of the metric."""
        if int((self.seen > 0).sum()) < self.least:
            return torch.tensor(torch.nan)
        value: Tensor = self.metric.compute()
        return value

    def reset(self) -> None:
        """Reset the metric and the counts of seen classes."""
        super().reset()
        self.metric.reset()


class MeanOverTargets(Metric):
    """Mean of one metric over several target columns; undefined values are left out.

    Args:
        metrics: this metric for each column. They are updated and reset separately.
    """

    full_state_update = False

    def __init__(self, metrics: Sequence[Metric]) -> None:
        super().__init__()
        self.metrics = tuple(metrics)

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Do nothing, because the metrics of the columns are updated separately."""

    @property
    def wrapped_metric(self) -> Metric:
        """Metric of the first column. Its ``higher_is_better`` tells the better direction."""
        return self.metrics[0]

    def compute(self) -> Tensor:
        """Return the mean over the columns."""
        return torch.stack([metric.compute() for metric in self.metrics]).nanmean()


def property_metrics(targets: Sequence[Target]) -> dict[str, Metric]:
    """Return the metrics of the target columns by name.

    For several columns, these are the means over the columns, such as "rmse", and the metrics of
    each column, such as "solubility/rmse".
    """
    own: dict[str, Metric] = {}
    found: dict[str, list[Metric]] = {}
    for place, target in enumerate(targets):
        for name, metric in _metrics(target).items():
            least = len(target.classes) if name in CURVES else 1
            one = OfTarget(metric, targets, place, least)
            own[f"{_key(target.name)}/{name}" if len(targets) > 1 else name] = one
            found.setdefault(name, []).append(one)
    if len(targets) == 1:
        return own
    return {name: MeanOverTargets(each) for name, each in found.items()} | own


def _metrics(target: Target) -> Mapping[str, Metric]:
    count = len(target.classes)
    # Values were checked when the data were loaded.
    plain: dict[str, Any] = {"validate_args": False}
    if not count:
        return {"rmse": MeanSquaredError(squared=False), "mae": MeanAbsoluteError(), "r2": R2()}
    if target.width == 1:
        return {
            "roc_auc": BinaryAUROC(**plain),
            "average_precision": BinaryAveragePrecision(**plain),
            "accuracy": BinaryAccuracy(**plain),
            "brier": BrierScore(),
            "calibration_error": BinaryCalibrationError(**plain),
        }
    return {
        "roc_auc": MulticlassAUROC(count, **plain),
        "average_precision": MulticlassAveragePrecision(count, **plain),
        "accuracy": MulticlassAccuracy(count, average="micro", **plain),
        "brier": BrierScore(num_outputs=count),
        "calibration_error": MulticlassCalibrationError(count, **plain),
    }


def _key(name: str) -> str:
    """Return the name of a target column with "_" in place of dots, slashes and spaces.

    PyTorch forbids dots in the names of metrics.
    """
    return re.sub(r"[./\s]+", "_", name)
