"""GCNII: deep graph convolutions with initial residual connections and identity mapping.

Formula: H' = ReLU(((1 - α) P H + α H⁰) ((1 - β) I + β W)), with P = D̂^-½ Â D̂^-½ and Â = A + I as in
    GCN, and β = log(λ / l + 1) in layer l
Graph: the input graph with self-loops
Score: none; an edge from j to i has weight 1/√(d_i d_j), with node degrees d
Normalisation: symmetric, by degree
Update: linear maps before the first and after the last layer
Paper: Chen et al., Simple and deep graph convolutional networks, 2020
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from edgewise.attention.attend import aggregate
from edgewise.graphs import Graph, Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import (
    Dropout,
    GraphLayer,
    Linear,
    Membership,
    refuse_edge_attr,
    symmetric_weight,
)
from edgewise.models.arguments import model_factory


class GCNIILayer(GraphLayer):
    """GCNII layer without its non-linearity (``GCN2Conv`` in PyG).

    Args:
        alpha: fraction α of the initial features H⁰ in the result.
        beta: fraction β of the linear map; the rest is the identity.
    """

    def __init__(self, width: int, alpha: float, beta: float) -> None:
        super().__init__()
        self.alpha, self.beta = alpha, beta
        self.linear = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, initial: Tensor, graph: Graph, weight: Tensor) -> Tensor:
        """Return features of the shape of x ``[..., N, width]``, given edge weights ``[E]``."""
        weight = (1 - self.alpha) * weight
        hidden = aggregate(x.unsqueeze(-2), graph, weight=weight).squeeze(-2)
        hidden = torch.add(hidden, initial, alpha=self.alpha)
        return torch.add((1 - self.beta) * hidden, self.linear(hidden), alpha=self.beta)


class GCNII(GraphLayer):
    """Deep graph convolutional network (GCNII).

    Called as ``model(x [..., N, in_width], graph)``. A node's output depends on the nodes up to
    ``depth`` steps away and on no others. The defaults are those of the paper for Cora.

    Args:
        alpha: fraction α of the initial features in the result of each layer.
        decay: factor λ of the fraction β of the linear maps, which decreases with depth.
        dropout: dropout probability of each layer's input.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.gcnii(16, 3, depth=8)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        width: int = 64,
        depth: int = 64,
        alpha: float = 0.1,
        decay: float = 0.5,
        dropout: float = 0.6,
    ) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.first = Linear(in_width, width)
        self.layers = nn.ModuleList(
            GCNIILayer(width, alpha, math.log(decay / layer + 1)) for layer in range(1, depth + 1)
        )
        self.last = nn.Linear(width, out_width)

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,  # noqa: ARG002 - no edge joins two graphs of a batch
    ) -> Tensor:
        """Return outputs ``[..., N, out_width]``."""
        refuse_edge_attr(edge_attr)
        loops = bind_to_nodes(graph, x).with_self_loops()
        weight = symmetric_weight(loops).to(x.dtype)
        h = initial = self.first(self.dropout(x)).relu()
        for layer in self.layers:
            h = layer(self.dropout(h), initial, loops, weight).relu()
        out: Tensor = self.last(self.dropout(h))
        return out


gcnii = model_factory(GCNII, depth=0)
