r"""GRAND: random nodes are dropped before propagation; a loss makes several such views agree.

Formula: Ŷ_s = MLP(1/(K+1) Σ_k (D̂^-½ Â D̂^-½)^k (m_s ⊙ X)), with a random node mask m_s per view
Graph: the input graph with self-loops
Score: none; an edge from j to i has weight 1/√(d_i d_j), with node degrees d, in all K hops
Normalisation: symmetric, by degree
Update: none between hops; a two-layer network after them
Paper: Feng et al., Graph random neural network for semi-supervised learning, 2020
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.attention.attend import aggregate
from edgewise.graphs import Pattern
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


class Grand(GraphLayer):
    """Graph random neural network (GRAND).

    Called as ``model(x [..., N, in_width], graph)``. In training, the output has one prediction per
    view, ``[..., N, views, out_width]``; each view drops random nodes.

    Args:
        hops: number of propagation steps (0 = none).
        views: number of views, the random augmentations per training step.
        drop_node: probability that all features of a node are dropped in a view. In evaluation,
            features are multiplied by 1 - ``drop_node`` instead.
        dropout: dropout probability of the MLP's input and hidden features.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.grand(16, 3)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape  # in training mode, two views
        torch.Size([10, 2, 3])
    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        width: int = 32,
        hops: int = 8,
        views: int = 2,
        drop_node: float = 0.5,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.hops, self.views, self.drop_node = hops, views, drop_node
        self.reach = hops
        self.dropout = Dropout(dropout)
        self.first = Linear(in_width, width, bias=False)
        self.bias = nn.Parameter(torch.empty(width))
        bound = in_width**-0.5 if in_width else 0.0
        nn.init.uniform_(self.bias, -bound, bound)  # as in nn.Linear
        self.last = nn.Linear(width, out_width)

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,  # noqa: ARG002 - no edge joins two graphs of a batch
    ) -> Tensor:
        """Return outputs ``[..., N, out_width]``, or ``[..., N, views, out_width]`` in training."""
        refuse_edge_attr(edge_attr)
        loops = bind_to_nodes(graph, x).with_self_loops()
        weight = symmetric_weight(loops).to(x.dtype)
        # Propagation is linear, so the first matrix is applied before it, to fewer features; the
        # bias is added after it.
        h = self.first(self.dropout(x)).unsqueeze(-2)
        if self.training:  # Each augmentation, with separately dropped nodes, is one head.
            views = (*h.shape[:-2], self.views, 1)
            h = h * (torch.rand(views, device=h.device) >= self.drop_node)
        else:
            h = h * (1 - self.drop_node)
        total = h
        for _ in range(self.hops):
            h = aggregate(h, loops, weight=weight)
            total = total + h
        out: Tensor = self.last(self.dropout(torch.relu(total / (self.hops + 1) + self.bias)))
        return out if self.training else out.squeeze(-2)


grand = model_factory(Grand, hops=0)
