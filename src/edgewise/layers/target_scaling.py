"""Target scaling: a network works on standardised numbers, its outputs are in the targets' unit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class TargetScaling(nn.Module):
    """A model, and then ``mean + std * output``; both numbers are saved with its weights.

    For fractions this is the logit of what is predicted, so that it lies between 0 and 1.

    Args:
        model: predicts targets of mean 0 and variance 1.
        mean, std: of the training targets, in their unit; of their logits, if they are fractions.
        fraction: whether they are.
    """

    def __init__(self, model: nn.Module, mean: float, std: float, fraction: bool = False) -> None:
        super().__init__()
        self.model, self.fraction = model, fraction
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))

    def forward(self, *inputs: Any, **keywords: Any) -> Tensor:
        """The model's output in the targets' unit."""
        out: Tensor = self.mean + self.std * self.model(*inputs, **keywords)
        return out.sigmoid() if self.fraction else out
