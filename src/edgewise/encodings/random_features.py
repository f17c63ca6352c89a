"""Random node features, which distinguish all nodes of a graph.

Renumbering the nodes changes the output of a model with random features, but not its mean over the
random features.

Paper: Sato et al., Random features strengthen graph neural networks, 2021; Abboud et al., The
surprising power of graph neural networks with random node initialization, 2021.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.graphs import Graph


class RandomFeatures(nn.Module):
    """Add a linear map of Gaussian noise, :math:`x_i + W ε_i`, sampled anew in every call.

    Example:
        >>> import torch
        >>> from edgewise import encodings
        >>> encodings.RandomFeatures(16)(torch.randn(10, 16)).shape
        torch.Size([10, 16])
    """

    def __init__(self, width: int, k: int = 8) -> None:
        super().__init__()
        self.k = k
        self.project = nn.Linear(k, width, bias=False)

    def code(self, graph: Graph) -> Tensor:
        """Sample noise ``[N, k]`` for the N nodes of ``graph``, anew for each forward pass."""
        return torch.randn(graph.num_targets, self.k, device=graph.device)

    def forward(self, x: Tensor, code: Tensor | None = None) -> Tensor:
        """Return x ``[..., N, width]`` plus a map of the noise ``code`` ``[..., N, k]``."""
        if code is None:
            code = torch.randn(*x.shape[:-1], self.k, dtype=x.dtype, device=x.device)
        out: Tensor = x + self.project(code.to(x))
        return out
