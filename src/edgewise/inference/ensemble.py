"""Ensemble of models that were trained with different seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from edgewise.targets import Target, probabilities, split_outputs


class Ensemble(nn.Module):
    """Mean of several models: averages the predicted numbers and the probabilities of classes.

    Paper: Lakshminarayanan et al., Simple and scalable predictive uncertainty estimation using deep
    ensembles, 2017.

    Args:
        members: models with the same outputs.
        targets: descriptions of the targets, which say what each output column predicts.
    """

    def __init__(self, members: Sequence[nn.Module], targets: Sequence[Target]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.targets = tuple(targets)

    def forward(self, *inputs: Any, **keywords: Any) -> Tensor:
        """Return outputs ``[M, widths]`` that give the mean numbers and mean probabilities."""
        each = self.each(*inputs, **keywords)
        parts = zip(self.targets, split_outputs(self.targets, each), strict=True)
        return torch.cat([_mean(target, outputs) for target, outputs in parts], dim=-1)

    def each(self, *inputs: Any, **keywords: Any) -> Tensor:
        """Return the outputs of each member, ``[members, M, widths]``."""
        return torch.stack([member(*inputs, **keywords) for member in self.members])


def _mean(target: Target, outputs: Tensor) -> Tensor:
    if not target.classes:
        return outputs.mean(0)
    logs = probabilities(target, outputs).mean(0).clamp(min=torch.finfo(outputs.dtype).tiny).log()
    return logs if target.width > 1 else logs[..., 1:] - logs[..., :1]
