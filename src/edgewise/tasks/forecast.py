"""Time-series forecasting: Huber loss, mean absolute error, and its ratio to a baseline's error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from edgewise.arguments import check_from_zero
from edgewise.base_task import Task
from edgewise.errors import require

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Forecast(Task):
    """Forecasting of a time series H steps ahead, with outputs ``[B, H]``.

    Targets ``[B, H, 2]`` are pairs of the true value and the seasonal naive forecast, which repeats
    the values of the last season. ``mae`` is the mean absolute error, in the unit of the series.
    ``seasonal_ratio`` is ``mae`` divided by that of the seasonal naive forecast; below 1, the model
    is better (after Hyndman and Koehler, Another look at measures of forecast accuracy, 2006).

    Attributes:
        delta: threshold of the Huber loss, in the unit of the series: the loss is quadratic for
            smaller errors and linear for larger ones. With 0, it is the absolute error, which suits
            any unit.

    Example:
        >>> import torch
        >>> from edgewise import tasks
        >>> outputs = torch.tensor([[1.0, 2.0]])  # one series, two steps ahead
        >>> target = torch.tensor([[[1.0, 1.5], [2.5, 2.0]]])
        >>> tasks.Forecast().loss(outputs, target)
        tensor(0.0625)
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        check_from_zero("task.delta", self.delta, "choose roughly the size of an acceptable error")

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        if not self.delta:
            return F.l1_loss(outputs, target[..., 0])
        return F.huber_loss(outputs, target[..., 0], delta=self.delta)

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="errors of a forecast")
        from edgewise.tasks.regression_metrics import ForecastError, SeasonalRatio

        return {"mae": ForecastError(), "seasonal_ratio": SeasonalRatio()}
