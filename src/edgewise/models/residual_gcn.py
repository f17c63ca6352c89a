"""GCN with residual linear maps, norms and dropout: a strong baseline of large graph networks.

Formula: H' = ReLU(norm(P H W + H V)), with P = D̂^-½ Â D̂^-½ and Â = A + I as in GCN
Graph: the input graph with self-loops
Score: none; an edge from j to i has weight 1/√(d_i d_j), with node degrees d
Normalisation: symmetric, by degree; batch norm
Update: a linear map of the node itself, and one after the last layer
Paper: Luo et al., Classic GNNs are strong baselines, 2024
"""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.graphs import Pattern
from edgewise.layers import GraphLayer, GraphSequential, Linear
from edgewise.layers.transformer import make_norm
from edgewise.models.arguments import model_function
from edgewise.models.gcn import GCNLayer
from edgewise.models.gps import NormName


class ResidualGCNLayer(GraphLayer):
    """Graph convolution plus a linear map of the node itself, norm, ReLU and dropout."""

    reach = 1

    def __init__(self, in_width: int, width: int, *, norm: NormName, dropout: float) -> None:
        super().__init__()
        self.convolution = GCNLayer(in_width, width)
        self.residual = Linear(in_width, width)
        self.norm, self.dropout = make_norm(norm, width), nn.Dropout(dropout)

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        hidden = self.convolution(x, graph) + self.residual(x)
        out: Tensor = self.dropout(self.norm(hidden).relu())
        return out


@model_function(depth=0)
def residual_gcn(
    in_width: int,
    out_width: int,
    *,
    width: int = 64,
    depth: int = 12,
    norm: NormName = "batch",
    dropout: float = 0.2,
) -> GraphSequential:
    """Build a deep graph convolutional network with residual linear maps and norms.

    Called as ``model(x [..., N, in_width], graph)``. A node's output depends on the nodes up to
    ``depth`` steps away and, except through batch norm in training, on no others. The defaults are
    those of the paper for minesweeper.

    Args:
        norm: kind of norm: "batch" or "layer".
        dropout: dropout probability after each layer.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.residual_gcn(16, 3, depth=4)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """
    widths = [in_width, *[width] * depth]
    layers = (ResidualGCNLayer(fan_in, width, norm=norm, dropout=dropout) for fan_in in widths[:-1])
    return GraphSequential(*layers, nn.Linear(widths[-1], out_width))
