"""MoNet: graph convolution whose edge weights are Gaussian kernels of edge pseudo-coordinates.

Formula: h_i' = B h_i + Σ_k W_k mean_j(exp(-½ ‖(u_ij - μ_k) ∘ γ_k‖²) h_j), u_ij = tanh(A p_ij + b)
Graph: the input graph
Score: none; K Gaussian kernels are K heads of edge weights
Normalisation: by degree
Update: sum over the kernels plus a linear map of the node; ReLU between layers
Paper: Monti et al., Geometric deep learning on graphs and manifolds, 2017
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_given
from edgewise.attention.attend import aggregate
from edgewise.graphs import Graph, Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import GraphLayer, GraphSequential, Linear, check_edge_attr
from edgewise.models.arguments import model_function


class MoNetLayer(GraphLayer):
    """Convolution with learned Gaussian kernels over edge pseudo-coordinates."""

    reads_edge_attr = True
    reach = 1

    def __init__(self, in_width: int, out_width: int, kernels: int, *, edge_width: int = 2) -> None:
        super().__init__()
        self.kernels, self.edge_width = kernels, edge_width
        self.linear = Linear(in_width, kernels * out_width, bias=False)
        self.coordinates = nn.Linear(edge_width, edge_width)  # A and b
        self.mean = nn.Parameter(torch.randn(kernels, edge_width))  # μ
        self.precision = nn.Parameter(torch.ones(kernels, edge_width))  # γ
        self.own = Linear(in_width, out_width)

    def forward(self, x: Tensor, graph: Pattern, edge_attr: Tensor | None = None) -> Tensor:
        """Return features ``[..., N, out_width]``."""
        graph = bind_to_nodes(graph, x)
        width, value = self.edge_width, self.linear(x).unflatten(-1, (self.kernels, -1))
        if edge_attr is None and width == 2:
            edge_attr = graph.cached("degrees", lambda: degrees(graph)).to(x.dtype)
        edge_attr = check_given(
            "edge_attr",
            edge_attr,
            f"pseudo-coordinates of the edges, of shape [{graph.num_edges}, {width}]",
            "pass edge_attr, or build the model with edge_width=2, which uses node degrees by "
            "default",
        )
        check_edge_attr(edge_attr, graph, width, like=x)
        u = self.coordinates(edge_attr).tanh()
        distance = (u[:, None] - self.mean) * self.precision
        weight = (-0.5 * distance.square().sum(-1)).exp()
        messages = aggregate(value, graph, weight=weight, reduce="mean").sum(-2)
        out: Tensor = self.own(x) + messages
        return out


def degrees(graph: Graph) -> Tensor:
    """Return pseudo-coordinates ``[E, 2]`` from the node degrees, (1/√d_i, 1/√d_j)."""
    scale = graph.whole_in_degree().clamp(min=1).double().rsqrt()
    return torch.stack([scale[graph.target], scale[graph.source]], dim=-1)


@model_function()
def monet(
    in_width: int, out_width: int, *, edge_width: int = 2, width: int = 64, kernels: int = 3
) -> GraphSequential:
    """Build a MoNet (mixture model network) of two convolutions.

    Called as ``model(x, graph, edge_attr=coordinates [E, edge_width])``. A node's output depends on
    the nodes and pseudo-coordinates up to 2 steps away, and by default on the in-degrees of these
    nodes.

    Args:
        edge_width: number of pseudo-coordinates per edge (with 2, they default to node degrees).
        kernels: number of Gaussian kernels.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chain = graphs.window(1).bind(10)
        >>> model = models.monet(16, 3)
        >>> model(torch.randn(10, 16), chain, edge_attr=torch.randn(chain.num_edges, 2)).shape
        torch.Size([10, 3])
    """
    first = MoNetLayer(in_width, width, kernels, edge_width=edge_width)
    last = MoNetLayer(width, out_width, kernels, edge_width=edge_width)
    return GraphSequential(first, nn.ReLU(), last)
