"""Mean absolute error of forecasts, as it is and beside that of the last season repeated."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.regression import MeanAbsoluteError


class ForecastError(MeanAbsoluteError):
    """The mean of |forecast - value|, in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.set_dtype(torch.double)

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add forecasts ``[B, H]`` and targets ``[B, H, 2]``: the value, and the last season's."""
        super().update(outputs.double(), target[..., 0].double())


class SeasonalError(ForecastError):
    """The same of the last season repeated."""

    def update(self, outputs: Tensor, target: Tensor) -> None:  # noqa: ARG002 - of the target alone
        super().update(target[..., 1], target)


def seasonal_ratio() -> Metric:
    """The error as a multiple of the last season's."""
    return ForecastError() / SeasonalError()
