"""Rescaling of standardised model outputs to the unit of the targets."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class TargetScaling(nn.Module):
    r"""Model with rescaled output, :math:`\mathrm{mean} + \mathrm{std} \cdot \mathrm{output}`.

    With ``fraction``, the result is a logit; a sigmoid maps it to an output between 0 and 1.

    Args:
        model: model that predicts targets of mean 0 and variance 1.
        mean, std: mean and standard deviation of the training targets, or of their logits; numbers,
            or a list with a number for each output.
        fraction: whether targets are fractions.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> model = layers.TargetScaling(torch.nn.Identity(), mean=20.0, std=5.0)
        >>> model(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([15., 20., 25.])
    """

    def __init__(
        self,
        model: nn.Module,
        mean: float | list[float],
        std: float | list[float],
        fraction: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.fraction = model, fraction
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))

    def forward(self, *inputs: Any, **keywords: Any) -> Tensor:
        """Return the output in the unit of the targets."""
        out: Tensor = self.mean + self.std * self.model(*inputs, **keywords)
        return out.sigmoid() if self.fraction else out
