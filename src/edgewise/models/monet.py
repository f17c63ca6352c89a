"""Mixture model network: convolution with Gaussian kernels over pseudo-coordinates.

Formula: h_i' = B h_i + Σ_k W_k mean_j(exp(-½ ‖(u_ij - μ_k) ∘ γ_k‖²) h_j), u_ij = tanh(A p_ij + b)
Graph: the input graph
Score: none; K Gaussian kernels are K heads of edge weights
Normalisation: by degree
Update: sum over the kernels and the node's own map; ReLU between layers
Paper: Monti et al., Geometric deep learning on graphs and manifolds, 2017
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.attention import aggregate
from edgewise.graphs import Graph, Pattern
from edgewise.layers import GraphLayer, GraphSequential, Linear
from edgewise.ranges import checked


class MoNetLayer(GraphLayer):
    """One convolution, ``[..., N, out_width]``; ``place`` is the width of the coordinates p."""

    def __init__(self, in_width: int, out_width: int, kernels: int, *, place: int = 2) -> None:
        super().__init__()
        self.kernels = kernels
        self.linear = Linear(in_width, kernels * out_width, bias=False)
        self.place = nn.Linear(place, place)
        self.mean = nn.Parameter(torch.randn(kernels, place))
        self.precision = nn.Parameter(torch.ones(kernels, place))
        self.own = Linear(in_width, out_width)

    def forward(self, x: Tensor, graph: Pattern, place: Tensor | None = None) -> Tensor:
        """Along ``graph``, by coordinates ``place`` ``[E, place]`` (default: by the degrees)."""
        graph = graph.bind(x.shape[-2]).to(x.device)
        if place is None:
            place = graph.cached("degrees", lambda: degrees(graph)).to(x.dtype)
        distance = (self.place(place).tanh()[:, None] - self.mean) * self.precision
        weight = (-0.5 * distance.square().sum(-1)).exp()
        value = self.linear(x).unflatten(-1, (self.kernels, -1))
        messages = aggregate(value, graph, weight=weight, reduce="mean").sum(-2)
        out: Tensor = self.own(x) + messages
        return out


def degrees(graph: Graph) -> Tensor:
    """``[E, 2]``, (1/√d_i, 1/√d_j): where an edge is, in a graph without positions."""
    scale = graph.in_degree().clamp(min=1).double().rsqrt()
    return torch.stack([scale[graph.target], scale[graph.source]], dim=-1)


@checked()
def monet(in_width: int, out_width: int, *, hidden: int = 64, kernels: int = 3) -> GraphSequential:
    """Two convolutions; called ``model(x, graph)``; a node's output sees up to 2 steps."""
    first, last = MoNetLayer(in_width, hidden, kernels), MoNetLayer(hidden, out_width, kernels)
    return GraphSequential(first, nn.ReLU(), last)
