"""GraphSAGE: each layer combines a node's features with the mean of its neighbours' features.

Formula: h_i' = σ(W mean_j(h_j) + B h_i)
Graph: the input graph
Score: none
Normalisation: by degree
Update: σ of a linear map of the node plus the mean, optionally scaled to unit length
Paper: Hamilton et al., Inductive representation learning on large graphs, 2017
"""

from __future__ import annotations

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.attention.attend import Reduce
from edgewise.layers import GraphSequential, MessagePassing
from edgewise.models.arguments import model_function


class UnitLength(nn.Module):
    """Scaling of each node's features to unit Euclidean length."""

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1)


@model_function()
def graphsage(
    in_width: int,
    out_width: int,
    *,
    width: int = 64,
    depth: int = 2,
    reduce: Reduce = "mean",
    unit_length: bool = False,
    dropout: float = 0.0,
) -> GraphSequential:
    """Build a GraphSAGE network.

    Called as ``model(x [..., N, in_width], graph)``. A node's output depends on the nodes up to
    ``depth`` steps away and on no others.

    Args:
        unit_length: scale each layer's output to unit length (Algorithm 1 of the paper, line 7).
        dropout: dropout probability between the layers.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.graphsage(16, 3)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """
    layers: list[nn.Module] = []
    scale = [UnitLength()] if unit_length else []
    for fan_in, fan_out in pairwise([in_width, *[width] * (depth - 1), out_width]):
        between = [nn.ReLU(), *scale, nn.Dropout(dropout)] if layers else []
        layers += [*between, MessagePassing(fan_in, fan_out, reduce=reduce)]
    return GraphSequential(*layers, *scale)
