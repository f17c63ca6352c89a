"""Accuracy where outputs may be several views, and only some nodes have a label."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric


class ViewAccuracy(Metric):
    """The share of known labels ``[N]`` (not negative) that the mean view ``[N, S, C]`` gives."""

    full_state_update = False
    right: Tensor
    known: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("right", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("known", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, outputs: Tensor, target: Tensor) -> None:
        probability = outputs.softmax(-1)
        if outputs.dim() == 3:
            probability = probability.mean(1)
        known = target >= 0
        self.right += (probability.argmax(-1)[known] == target[known]).sum()
        self.known += known.sum()

    def compute(self) -> Tensor:
        return self.right / self.known
