"""Jumping knowledge: what every depth of a stack knows, for whoever reads its end."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.graphs import Pattern
from edgewise.layers.sequential import GraphLayer


class JumpingKnowledge(GraphLayer):
    r"""Layers in a row; the output is the input and all their outputs, :math:`[h^0; \dots; h^L]`.

    Deep layers over-smooth and shallow ones see little; a linear map of both chooses for itself
    (Xu et al., Representation learning on graphs with jumping knowledge networks, 2018).

    Args:
        layers: called as by :class:`GraphSequential`.
    """

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        """``[..., N, width_0 + ... + width_L]`` from x ``[..., N, width_0]``."""
        x = x.to_dense() if x.layout is torch.sparse_csr else x
        depths = [x]
        for layer in self.layers:
            x = layer(x, graph) if isinstance(layer, GraphLayer) else layer(x)
            depths.append(x)
        return torch.cat(depths, dim=-1)
