"""Coefficient of determination R²."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics.regression import R2Score


class R2(R2Score):
    """R² of torchmetrics, but NaN instead of an error with fewer than two targets.

    The validation split of a small table may be a single row.
    """

    def compute(self) -> Tensor:
        """Return R², or NaN with fewer than two targets."""
        return super().compute() if self.total > 1 else torch.tensor(torch.nan)
