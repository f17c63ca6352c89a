"""Time-series forecasting: Huber loss, mean absolute error, and its ratio to a baseline's error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.arguments import check_range, check_same_shape
from edgewise._utils.errors import require
from edgewise.app.train.task import Task

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Forecast(Task):
    """Forecasting of a time series H steps ahead, with outputs ``[B, H]``.

    Targets ``[B, H, 3]`` are the true value, the seasonal naive forecast, which repeats the values
    of the last season, and the mean absolute error of this forecast in the training part. ``mae``
    is the mean absolute error, in the unit of the series. ``seasonal_ratio`` is ``mae`` divided by
    that of the seasonal naive forecast; below 1, the model is better (after Hyndman and Koehler,
    Another look at measures of forecast accuracy, 2006). The loss has no unit, so that it trains
    the same model in any unit of the series.

    Attributes:
        delta: threshold of the Huber loss, in the unit of the series: the loss is quadratic for
            smaller errors and linear for larger ones, and relative to the square of ``delta``. With
            0, it is the mean absolute scaled error of Hyndman and Koehler: the absolute error
            relative to the third column of the targets.

    Example:
        >>> import torch
        >>> from edgewise.app.kinds.series import Forecast
        >>> outputs = torch.tensor([[1.0, 2.0]])  # one series, two steps ahead
        >>> target = torch.tensor([[[1.0, 1.5, 0.5], [2.5, 2.0, 0.5]]])
        >>> Forecast().loss(outputs, target)
        tensor(0.0625)
        >>> Forecast(delta=0.0).loss(outputs, target)
        tensor(0.5000)
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        check_range(
            "task.delta", self.delta, "choose roughly the size of an acceptable error", least=0
        )

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        check_same_shape(outputs, target[..., 0])
        scaled_errors = (outputs - target[..., 0]) / (self.delta or target[..., 2])
        if not self.delta:
            return scaled_errors.abs().mean()
        return F.huber_loss(scaled_errors, torch.zeros_like(scaled_errors))

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="errors of a forecast")
        from edgewise.app.train.tasks.regression_metrics import ForecastError, SeasonalRatio

        return {"mae": ForecastError(), "seasonal_ratio": SeasonalRatio()}
