"""Learned positions: a free vector for every index."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.errors import ArgumentError


class Learned(nn.Module):
    """Add a learned vector to the features of each node, by its index (BERT, ViT).

    Args:
        length: how many positions there are.
        width: of the features.
    """

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(length, width))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """``[..., N, width]`` from x of that shape.

        Raises:
            ArgumentError: more nodes than there are positions.
        """
        n = x.shape[-2]
        if n > self.table.shape[0]:
            raise ArgumentError(
                "x",
                expected=f"at most {self.table.shape[0]} nodes, as many as there are positions",
                got=f"{n} nodes",
                remedy="make the model with a larger length, or use sinusoidal positions",
            )
        return x + self.table[:n]
