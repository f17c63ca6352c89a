"""Graph convolutional network (GCN).

Formula: H' = D̂^-½ Â D̂^-½ H W, with Â = A + I and D̂ the diagonal matrix of its degrees
Graph: the input graph with self-loops
Score: none; an edge from j to i has weight 1/√(d_i d_j), with node degrees d
Normalisation: symmetric, by degree
Update: ReLU between layers
Paper: Kipf and Welling, Semi-supervised classification with graph convolutional networks, 2017
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from edgewise.attention.attend import aggregate
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import Dropout, GraphLayer, GraphSequential, Linear, symmetric_weight
from edgewise.models.arguments import model_function


class GCNLayer(GraphLayer):
    """GCN layer, from features ``[..., N, in_width]`` to features ``[..., N, out_width]``."""

    reach = 1

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__()
        self.linear = Linear(in_width, out_width, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_width))
        nn.init.xavier_uniform_(self.linear.weight)

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        loops = bind_to_nodes(graph, x).with_self_loops()
        weight = symmetric_weight(loops).to(x.dtype)
        out = aggregate(self.linear(x).unsqueeze(-2), loops, weight=weight)
        return out.squeeze(-2) + self.bias


@model_function()
def gcn(
    in_width: int, out_width: int, *, width: int = 16, depth: int = 2, dropout: float = 0.5
) -> GraphSequential:
    """Build a graph convolutional network.

    Called as ``model(x [..., N, in_width], graph)``. A node's output depends on the nodes up to
    ``depth`` steps away and on no others.

    Args:
        dropout: dropout probability of each layer's input.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.gcn(16, 3)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """
    widths = [in_width, *[width] * (depth - 1), out_width]
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layers += [Dropout(dropout), GCNLayer(fan_in, fan_out), nn.ReLU()]
    return GraphSequential(*layers[:-1])
