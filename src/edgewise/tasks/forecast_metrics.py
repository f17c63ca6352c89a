"""Errors of forecasts, as they are and beside those of the last season repeated."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric


class AbsoluteDifference(Metric):
    """The mean of |forecast - value|."""

    full_state_update = False
    own: Tensor
    seasonal: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("own", "seasonal", "count"):
            self.add_state(name, torch.tensor(0.0, dtype=torch.double), dist_reduce_fx="sum")

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add forecasts ``[B, H]`` and targets ``[B, H, 2]``."""
        value, seasonal = target.double().unbind(-1)
        self.own += (outputs - value).abs().sum()
        self.seasonal += (seasonal - value).abs().sum()
        self.count += value.numel()

    def compute(self) -> Tensor:
        return self.own / self.count


class SeasonalRatio(AbsoluteDifference):
    """The same over that of the last season repeated."""

    def compute(self) -> Tensor:
        return self.own / self.seasonal
