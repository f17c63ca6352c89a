"""Plain message-passing graph neural network for whole graphs.

Formula: h_i' = σ(U h_i + Σ_j V h_j); the output is the mean over nodes
Graph: the input graph; for the readout, edges from the nodes to their graph
Score: none
Normalisation: none (sum)
Update: σ of a linear map of the node plus the messages
Paper: Scarselli et al., The graph neural network model, 2009
"""

from __future__ import annotations

from edgewise.layers import PooledNodes
from edgewise.layers.pooling import Pooling
from edgewise.models.arguments import model_function
from edgewise.models.gnn import gnn


@model_function()
def graph_gnn(
    in_width: int,
    out_width: int,
    *,
    width: int = 64,
    depth: int = 3,
    dropout: float = 0.0,
    pool: Pooling = "mean",
) -> PooledNodes:
    """Build a message-passing network for whole graphs.

    Called as ``model(x [N, in_width], graph, batch=...)``.

    Args:
        dropout: dropout probability between the layers.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.graph_gnn(16, 3)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 3])
    """
    nodes = gnn(in_width, out_width, width=width, depth=depth, dropout=dropout)
    return PooledNodes(nodes, pool)
