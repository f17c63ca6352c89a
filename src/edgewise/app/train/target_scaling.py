"""Rescaling of standardised model outputs to the unit of the targets."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class TargetScaling(nn.Module):
    r"""Model with rescaled outputs, :math:`\mathrm{mean} + \mathrm{std} \cdot \mathrm{output}`.

    Outputs are float64, because float32 cannot represent the differences between targets whose mean
    is far larger than their standard deviation, such as energies of -311,026 ± 16. With
    ``fraction``, this number is a logit, and a sigmoid maps it to a prediction from 0 to 1.

    Args:
        model: model that predicts standardised targets (mean 0, variance 1).
        mean, std: mean and standard deviation of the training targets, or with ``fraction`` of
            their logits. Each is a number, or a list with one number per output.
        fraction: whether targets are fractions from 0 to 1.

    Example:
        >>> import torch
        >>> from edgewise.app.train import TargetScaling
        >>> model = TargetScaling(torch.nn.Identity(), mean=20.0, std=5.0)
        >>> model(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([15., 20., 25.], dtype=torch.float64)
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        model: nn.Module,
        mean: float | list[float],
        std: float | list[float],
        fraction: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.fraction = model, fraction
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.double))
        self.register_buffer("std", torch.tensor(std, dtype=torch.double))

    def forward(self, *inputs: Any, **keywords: Any) -> Tensor:
        """Return the output in the unit of the targets."""
        return self.rescaled(self.model(*inputs, **keywords))

    def rescaled(self, standardised: Tensor) -> Tensor:
        """Return outputs of the model in the unit of the targets."""
        # A product with a number in float64 would stay float32.
        standardised = standardised.to(self.mean.dtype)
        out: Tensor = self.mean + self.std * standardised
        return out.sigmoid() if self.fraction else out
