r"""Metrics of regression and forecasts, in float64.

They are equal, as their definitions say, in every unit and at every level of the targets. Those of
torchmetrics are used with float64 states and inputs, where they are computed from residuals. Its
R2Score is not used: it subtracts :math:`n \bar y^2` from :math:`\sum_i y_i^2`, which leaves no
correct digit if the mean is far larger than the spread, and replaces sums of squares below 1e-4 by
0, whatever their unit.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.metric import CompositionalMetric
from torchmetrics.regression import MeanAbsoluteError, MeanSquaredError

from edgewise._utils.arguments import check_same_shape


def _double(outputs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return predictions and targets of equal shape as float64 numbers in one dimension."""
    check_same_shape(outputs, target)
    return outputs.double().flatten(), target.double().flatten()


class AbsoluteError(MeanAbsoluteError):
    """Mean absolute error."""

    def __init__(self) -> None:
        super().__init__()
        self.set_dtype(torch.double)

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add predictions and targets of equal shape."""
        super().update(*_double(outputs, target))


class RootSquaredError(MeanSquaredError):
    """Root mean squared error."""

    def __init__(self) -> None:
        super().__init__(squared=False)
        self.set_dtype(torch.double)

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add predictions and targets of equal shape."""
        super().update(*_double(outputs, target))


class R2(Metric):
    r"""Coefficient of determination R².

    .. math:: R^2 = 1 - \sum_i (y_i - \hat y_i)^2 / \sum_i (y_i - \bar y)^2

    It is the mean over columns. For constant targets, it is 1 if all are exact, otherwise 0, as in
    scikit-learn. Sums are merged as by Chan et al., Algorithms for computing the sample variance,
    1983.
    """

    full_state_update = True  # Torchmetrics cannot merge states without a reduction.
    higher_is_better = True
    count: Tensor
    origin: Tensor
    mean: Tensor
    spread: Tensor
    residual: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("count", "origin", "mean", "spread", "residual"):
            # Without a reduction, the states of several processes are stacked.
            self.add_state(name, torch.zeros(1, dtype=torch.double), dist_reduce_fx=None)

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add predictions and targets, ``[M]`` or ``[M, T]``."""
        check_same_shape(outputs, target)
        if not target.numel():
            return
        y = target.double().reshape(len(target), -1)
        residual = (target.double() - outputs.double()).reshape(y.shape).square().sum(0)
        if not self.count.any():
            self.origin = y[0]
        y = y - self.origin
        mean = y.mean(0)
        spread = (y - mean).square().sum(0)
        batch = torch.full_like(mean, len(y)), mean, spread, residual
        states = (self.count, self.mean, self.spread, self.residual)
        self.count, self.mean, self.spread, self.residual = _merged(
            *(
                torch.stack([state.expand_as(new), new])
                for state, new in zip(states, batch, strict=True)
            )
        )

    def compute(self) -> Tensor:
        count, mean, spread, residual = self.count, self.mean, self.spread, self.residual
        if count.dim() > 1:
            origin = self.origin - self.origin[count[:, 0].argmax()]
            count, mean, spread, residual = _merged(count, origin + mean, spread, residual)
        if not (count > 1).all():
            return torch.tensor(torch.nan)
        exact = (residual == 0).double()
        return torch.where(spread > 0, 1 - residual / spread, exact).mean()


def _merged(
    count: Tensor, mean: Tensor, spread: Tensor, residual: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the statistics ``[T]`` of the union of K sets, given those of each set ``[K, T]``."""
    total = count.sum(0)
    merged_mean = (count / total * mean).sum(0)
    deviation = (count * (mean - merged_mean).square()).sum(0)
    return total, merged_mean, spread.sum(0) + deviation, residual.sum(0)


class ForecastError(AbsoluteError):
    """Mean absolute error of a forecast."""

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add forecasts ``[B, H]`` and targets of :class:`edgewise.app.kinds.series.Forecast`."""
        super().update(outputs, target[..., 0])


class SeasonalError(ForecastError):
    """Mean absolute error of the seasonal naive forecast."""

    def update(self, outputs: Tensor, target: Tensor) -> None:  # noqa: ARG002
        super().update(target[..., 1], target)


class SeasonalRatio(CompositionalMetric):
    """Mean absolute error of a forecast, divided by that of the seasonal naive forecast."""

    higher_is_better = False

    def __init__(self) -> None:
        super().__init__(torch.true_divide, ForecastError(), SeasonalError())
