"""Random node features: every node can be told from every other, and no two runs agree on how.

Paper: Sato et al., Random features strengthen graph neural networks, 2021; Abboud et al., The
surprising power of graph neural networks with random node initialization, 2021.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RandomFeatures(nn.Module):
    """Add projected random numbers, others in every call: equivariant in expectation alone.

    Args:
        width: of the features.
        k: how many numbers a node has.

    """

    def __init__(self, width: int, k: int = 8) -> None:
        super().__init__()
        self.k = k
        self.project = nn.Linear(k, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[..., N, width]`` from x of that shape."""
        numbers = torch.randn(*x.shape[:-1], self.k, dtype=x.dtype, device=x.device)
        out: Tensor = x + self.project(numbers)
        return out
