"""Graph attention network for whole graphs.

Formula: h_i' = h_i + elu(norm(Σ_j softmax_j(leaky(a·W h_i + b·W h_j)) W h_j)); mean and max
    pooling; MLP
Graph: the input graph with self-loops; for the readout, edges from the nodes to their graph
Score: ``Additive``: leaky ReLU (slope 0.2) of a scalar of the target plus a scalar of the source
Normalisation: softmax over the neighbourhood; batch norm of each layer's output, before ELU
Update: residual connection; the readout takes the features of all layers
Paper: Veličković et al., Graph attention networks, 2018
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.graphs import Pattern
from edgewise.layers import GraphLayer, Linear, Membership, NodeBatchNorm, Pool, refuse_edge_attr
from edgewise.models.arguments import model_factory
from edgewise.models.gat import GATLayer


class GraphGAT(GraphLayer):
    """Graph attention network for whole graphs.

    Called as ``model(x [N, in_width], graph, batch=...)``.

    Args:
        head_width: hidden size of each head.
        dropout: dropout probability of the attention weights, the values and the output MLP.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.graph_gat(16, 3)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        head_width: int = 8,
        heads: int = 8,
        depth: int = 3,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        width = heads * head_width
        layers = [GATLayer(width, head_width, heads, dropout=dropout) for _ in range(depth)]
        head = nn.Sequential(
            nn.Linear(2 * (depth + 1) * width, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, out_width),
        )
        self.embed, self.layers, self.head = Linear(in_width, width), nn.ModuleList(layers), head
        self.norms = nn.ModuleList(NodeBatchNorm(width) for _ in layers)
        self.mean, self.maximum = Pool("mean"), Pool("max")

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
    ) -> Tensor:
        """Return outputs ``[B, out_width]`` for x ``[N, in_width]``; see :mod:`edgewise.models`."""
        refuse_edge_attr(edge_attr)
        x = self.embed(x)
        features = [x]
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + nn.functional.elu(norm(layer(x, graph)))
            features.append(x)
        nodes = torch.cat(features, dim=-1)
        pooled = torch.cat([self.mean(nodes, batch), self.maximum(nodes, batch)], dim=-1)
        out: Tensor = self.head(pooled)
        return out


graph_gat = model_factory(GraphGAT)
