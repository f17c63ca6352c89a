"""Graph isomorphism network for whole graphs.

Formula: h_i' = MLP((1 + ε) h_i + Σ_j h_j); the output is Σ_i Σ_k W_k h_i^(k), over nodes and layers
Graph: the input graph; for the readout, edges from the nodes to their graph
Score: none
Normalisation: none (sum), batch norm in the MLP
Update: a two-layer network, ReLU
Paper: Xu et al., How powerful are graph neural networks?, 2019
"""

from __future__ import annotations

from edgewise.layers import PooledNodes
from edgewise.layers.pooling import Pooling
from edgewise.models.arguments import model_function
from edgewise.models.gin import gin


@model_function()
def graph_gin(
    in_width: int,
    out_width: int,
    *,
    width: int = 64,
    depth: int = 5,
    dropout: float = 0.0,
    pool: Pooling = "sum",
) -> PooledNodes:
    """Build a graph isomorphism network for whole graphs.

    Called as ``model(x [N, in_width], graph, batch=...)``. The linear output layer comes before the
    pooling; with sum pooling, its bias is multiplied by the number of nodes.

    Args:
        dropout: dropout probability before the linear output layer.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.graph_gin(16, 3)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 3])
    """
    nodes = gin(in_width, out_width, width=width, depth=depth, dropout=dropout)
    return PooledNodes(nodes, pool)
