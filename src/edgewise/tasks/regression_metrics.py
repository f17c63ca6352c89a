"""R², and the mean absolute error of forecasts."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics.metric import CompositionalMetric
from torchmetrics.regression import MeanAbsoluteError, R2Score


class R2(R2Score):
    """R² of torchmetrics, but NaN instead of an error with fewer than two targets.

    The validation split of a small table may be a single row.
    """

    def compute(self) -> Tensor:
        """Return R², or NaN with fewer than two targets."""
        return super().compute() if self.total > 1 else torch.tensor(torch.nan)


class ForecastError(MeanAbsoluteError):
    """Mean absolute error in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.set_dtype(torch.double)

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add forecasts ``[B, H]`` and targets ``[B, H, 2]``: value and seasonal naive."""
        super().update(outputs.double(), target[..., 0].double())


class SeasonalError(ForecastError):
    """Mean absolute error of the seasonal naive forecast."""

    def update(self, outputs: Tensor, target: Tensor) -> None:  # noqa: ARG002
        super().update(target[..., 1], target)


class SeasonalRatio(CompositionalMetric):
    """Mean absolute error divided by that of the seasonal naive forecast."""

    higher_is_better = False

    def __init__(self) -> None:
        super().__init__(torch.true_divide, ForecastError(), SeasonalError())
