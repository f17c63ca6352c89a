"""Metrics of target columns that may have missing values, from torchmetrics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import (
    BinaryAccuracy,
    BinaryCalibrationError,
    MulticlassAccuracy,
    MulticlassCalibrationError,
)
from torchmetrics.regression import MeanSquaredError
from torchmetrics.utilities import dim_zero_cat

from edgewise.app.files.targets import Target, probabilities
from edgewise.app.train.tasks.regression_metrics import R2, AbsoluteError, RootSquaredError

CURVES = ("roc_auc", "average_precision")
"""Metrics that are undefined unless each class has an example. They are functions in
``sklearn.metrics`` with the suffix ``_score``."""


class CurveScore(Metric):
    """ROC-AUC or average precision, the mean over several classes, by scikit-learn: torchmetrics
    sums in float32 (ROC-AUC 0.762 instead of 0.800 for logits around 40).
    """

    full_state_update = False
    higher_is_better = True
    scores: list[Tensor]
    classes: list[Tensor]

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("classes", [], dist_reduce_fx="cat")

    def update(self, scores: Tensor, classes: Tensor) -> None:
        """Add logits ``[M]`` or probabilities ``[M, classes]``, and class indices ``[M]``."""
        self.scores.append(scores.double())
        self.classes.append(classes)

    def compute(self) -> Tensor:
        from sklearn import metrics

        scores, classes = dim_zero_cat(self.scores).cpu(), dim_zero_cat(self.classes).cpu()
        if scores.isnan().any():
            return torch.tensor(torch.nan, dtype=torch.double)
        truth = classes if scores.dim() == 1 else F.one_hot(classes, scores.shape[1])
        # Scikit-learn refuses infinite scores, but needs their order only.
        ranks = scores.unique(return_inverse=True)[1]
        score = getattr(metrics, f"{self.name}_score")(truth.numpy(), ranks.numpy())
        return torch.tensor(float(score), dtype=torch.double)


class BrierScore(MeanSquaredError):  # noqa: N818
    """Mean squared difference of probabilities and true classes (Brier, 1950): of the second of two
    classes, or the sum over more.
    """

    def __init__(self, num_outputs: int = 1) -> None:
        super().__init__(num_outputs=num_outputs)
        self.set_dtype(torch.double)

    def update(self, chances: Tensor, classes: Tensor) -> None:
        """Add probabilities ``[M]`` or ``[M, classes]``, and true class indices ``[M]``."""
        truth = classes if chances.dim() == 1 else F.one_hot(classes, self.num_outputs)
        super().update(chances.double(), truth.double())

    def compute(self) -> Tensor:
        """Return the Brier score."""
        return super().compute().sum()


class OfTarget(Metric):
    """Metric of one target column, over the examples that have a value; NaN if it is undefined."""

    full_state_update = False
    seen: Tensor

    def __init__(
        self, metric: Metric, targets: Sequence[Target], index: int, least: int = 1
    ) -> None:
        super().__init__()
        self.metric, self.target, self.place, self.least = metric, targets[index], index, least
        self.start = sum(target.width for target in targets[:index])
        count = max(len(self.target.classes), 1)
        self.add_state("seen", torch.zeros(count, dtype=torch.long), dist_reduce_fx="sum")

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add model outputs and targets of all columns: ``[M, sum of widths]`` and ``[M, T]``."""
        column, values = self.target, target[:, self.place]
        has_value = ~values.isnan()
        if not has_value.any():
            return
        values = values[has_value]
        logits = outputs[:, self.start : self.start + column.width][has_value].double()
        if not column.classes:
            self.seen += len(values)
            self.metric.update(logits[:, 0], values)
            return
        classes = values.long()
        self.seen += torch.bincount(classes, minlength=len(self.seen))
        chances = probabilities(column, logits)
        if column.width > 1:
            self.metric.update(chances, classes)
        elif isinstance(self.metric, CurveScore):
            self.metric.update(logits[:, 0], classes)
        else:
            self.metric.update(chances[:, 1], classes)

    def forward(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Add a batch, and return the metric of this batch alone."""
        self.update(outputs, target)
        return self.of_batch(outputs, target)

    def of_batch(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the metric of a batch of this process, without adding it."""
        batch = cast(OfTarget, self.clone())
        for metric in (batch, batch.metric):
            metric.distributed_available_fn = lambda: False  # No other process contributes.
        batch.reset()
        batch.update(outputs, target)
        return batch.compute()

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
    """Mean of one metric over several target columns; undefined values are left out."""

    full_state_update = False

    def __init__(self, metrics: Sequence[OfTarget]) -> None:
        super().__init__()
        self.metrics = tuple(metrics)

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Do nothing, because the metrics of the columns are updated separately."""

    def forward(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the mean of the metrics of this batch alone."""
        self.update(outputs, target)
        return torch.stack([metric.of_batch(outputs, target) for metric in self.metrics]).nanmean()

    @property
    def wrapped_metric(self) -> Metric:
        """Metric of the first column. Its ``higher_is_better`` tells the better direction."""
        return self.metrics[0]

    def compute(self) -> Tensor:
        """Return the mean over the columns."""
        return torch.stack([metric.compute() for metric in self.metrics]).nanmean()


def property_metrics(targets: Sequence[Target]) -> dict[str, Metric]:
    """Return the metrics of several columns, "solubility/rmse", and their means, "rmse"."""
    by_column: dict[str, Metric] = {}
    by_metric: dict[str, list[OfTarget]] = {}
    for index, target in enumerate(targets):
        for name, metric in _metrics(target).items():
            least = len(target.classes) if name in CURVES else 1
            column_metric = OfTarget(metric, targets, index, least)
            by_column[f"{_key(target.name)}/{name}" if len(targets) > 1 else name] = column_metric
            by_metric.setdefault(name, []).append(column_metric)
    if len(targets) == 1:
        return by_column
    return {name: MeanOverTargets(columns) for name, columns in by_metric.items()} | by_column


def _metrics(target: Target) -> Mapping[str, Metric]:
    count = len(target.classes)
    # Values were checked when the data were loaded.
    plain: dict[str, Any] = {"validate_args": False}
    if not count:
        return {"rmse": RootSquaredError(), "mae": AbsoluteError(), "r2": R2()}
    curves = {name: CurveScore(name) for name in CURVES}
    if target.width == 1:
        return {
            **curves,
            "accuracy": BinaryAccuracy(**plain),
            "brier": BrierScore(),
            "calibration_error": BinaryCalibrationError(**plain),
        }
    return {
        **curves,
        "accuracy": MulticlassAccuracy(count, average="micro", **plain),
        "brier": BrierScore(num_outputs=count),
        "calibration_error": MulticlassCalibrationError(count, **plain),
    }


def _key(name: str) -> str:
    """Return a column name without dots, slashes and spaces, for the names of metrics."""
    return re.sub(r"[./\s]+", "_", name)
