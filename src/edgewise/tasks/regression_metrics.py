"""Metrics of regression (R²) and of forecasts (mean absolute error, ratio to a baseline)."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics.metric import CompositionalMetric
from torchmetrics.regression import MeanAbsoluteError, R2Score


class R2(R2Score):
    """R² of torchmetrics, with NaN instead of an error for fewer than two examples.

    The validation set of a small table may have a single row.
    """

    def compute(self) -> Tensor:
        """Return R², or NaN for fewer than two examples."""
        return super().compute() if self.total > 1 else torch.tensor(torch.nan)


class ForecastError(MeanAbsoluteError):
    """Mean absolute error of a forecast, computed in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.set_dtype(torch.double)

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add forecasts ``[B, H]`` and targets ``[B, H, 2]``: true value, seasonal naive value."""
        super().update(outputs.double(), target[..., 0].double())


class SeasonalError(ForecastError):
    """Mean absolute error of the seasonal naive forecast."""

    def update(self, outputs: Tensor, target: Tensor) -> None:  # noqa: ARG002
        super().update(target[..., 1], target)


class SeasonalRatio(CompositionalMetric):
    """Mean absolute error of a forecast, divided by that of the seasonal naive forecast."""

    higher_is_better = False

    def __init__(self) -> None:
        super().__init__(torch.true_divide, ForecastError(), SeasonalError())
