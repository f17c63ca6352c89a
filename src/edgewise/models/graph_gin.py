"""Graph isomorphism network for whole graphs.

Formula: h_i' = MLP((1 + ε) h_i + Σ_j h_j); the output is Σ_i Σ_k W_k h_i^(k), over nodes and layers
Graph: the input graph; for the readout, edges from the nodes to their graph
Score: none
Normalisation: none (sum), batch norm in the MLP
Update: a two-layer network, ReLU
Paper: Xu et al., How powerful are graph neural networks?, 2019
"""

from __future__ import annotations

from edgewise._utils.arguments import checked
from edgewise.layers import PooledNodes
from edgewise.layers.pooling import Pooling
from edgewise.models.gin import gin


@checked()
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

    Called as ``model(x [N, in_width], graph, batch=...)``. The linear output layer is applied to
    every node, before pooling. With mean pooling, the result is the same as with an output layer
    after pooling; with sum pooling, the bias is multiplied by the number of nodes.

    Args:
        in_width: number of input features per node.
        out_width: number of outputs per graph, such as the number of classes or targets.
        width: hidden size.
        depth: number of layers.
        dropout: dropout probability before the linear output layer.
        pool: readout that pools node outputs to one vector per graph, such as "mean" or "sum".

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
