"""Ensemble of models that were trained with different seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from edgewise.app.files.targets import Target, mean_prediction


class Ensemble(nn.Module):
    """Model whose prediction is the mean of the numbers and probabilities of several models
    (Lakshminarayanan et al., 2017).
    """

    def __init__(self, members: Sequence[nn.Module], targets: Sequence[Target]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.targets = tuple(targets)

    def forward(self, *inputs: Any, **keywords: Any) -> Tensor:
        """Return the mean prediction of the models, in the form of the outputs of one model."""
        return mean_prediction(self.targets, self.each(*inputs, **keywords))

    def each(self, *inputs: Any, **keywords: Any) -> Tensor:
        """Return the outputs of each model, ``[models, M, K]``."""
        return torch.stack([member(*inputs, **keywords) for member in self.members])
