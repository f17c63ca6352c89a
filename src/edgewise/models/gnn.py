"""Plain message-passing graph neural network.

Formula: h_i' = σ(U h_i + Σ_j V h_j)
Graph: the input graph
Score: none
Normalisation: none (sum, max, min) or by degree (mean)
Update: σ of a linear map of the node plus the messages
Paper: Scarselli et al., The graph neural network model, 2009; Gilmer et al., 2017
"""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from edgewise.attention.attend import Reduce
from edgewise.layers import GraphSequential, MessagePassing, activation
from edgewise.models.arguments import model_function


@model_function()
def gnn(
    in_width: int,
    out_width: int,
    *,
    width: int = 64,
    depth: int = 2,
    reduce: Reduce = "sum",
    act: str = "relu",
    dropout: float = 0.0,
) -> GraphSequential:
    """Build a message-passing network.

    Called as ``model(x [..., N, in_width], graph)``. A node's output depends on the nodes up to
    ``depth`` steps away and on no others.

    Args:
        act: name of the activation function between the layers.
        dropout: dropout probability between the layers.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.gnn(16, 3)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """
    widths = [in_width, *[width] * (depth - 1), out_width]
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layers += [MessagePassing(fan_in, fan_out, reduce=reduce), activation(act)]
        layers.append(nn.Dropout(dropout))
    return GraphSequential(*layers[:-2])
