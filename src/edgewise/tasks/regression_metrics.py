"""R² of any number of targets."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics.regression import R2Score


class R2(R2Score):
    """torchmetrics' R², which fewer than two targets do not have: NaN, where theirs raises.

    A validation split of a small table may be one molecule, whose other metrics are worth having.
    """

    def compute(self) -> Tensor:
        """R², or NaN."""
        return super().compute() if self.total > 1 else torch.tensor(torch.nan)
