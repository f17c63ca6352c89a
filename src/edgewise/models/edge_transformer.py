"""Graph Transformer with vectors on the edges, updated along with the nodes.

Formula: s_ij = q_i ∘ k_j ∘ (E e_ij) / √D; h_i' = Σ_j softmax_j(Σ s_ij) v_j; e_ij' = O s_ij
Graph: the input graph
Score: the sum of the vector s_ij, by gathers: vectors that multiply are not in the fused primitive
Normalisation: softmax over the neighbourhood; batch norm, post
Update: residual and feed-forward network with a residual of its own, for nodes and for edges
Paper: Dwivedi and Bresson, A generalization of Transformer networks to graphs, 2020
"""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.graphs import Pattern
from edgewise.layers import EdgeTransformerLayer, GraphLayer
from edgewise.ranges import checked


class EdgeTransformer(GraphLayer):
    """Layers between linear maps, ``[..., N, out_width]`` and the edges' last features."""

    def __init__(self, ends: list[nn.Linear], layers: list[EdgeTransformerLayer]) -> None:
        super().__init__()
        self.nodes, self.edges, self.head = ends
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, graph: Pattern, edge: Tensor) -> tuple[Tensor, Tensor]:
        x, edge = self.nodes(x), self.edges(edge)
        for layer in self.layers:
            x, edge = layer(x, graph, edge)
        return self.head(x), edge


@checked(depth=0)
def edge_transformer(
    in_width: int,
    edge_width: int,
    out_width: int,
    *,
    hidden: int = 64,
    depth: int = 4,
    heads: int = 8,
) -> EdgeTransformer:
    """Stack ``depth`` layers; called ``model(x, graph, edge)``; sees up to ``depth`` steps."""
    ends = [
        nn.Linear(in_width, hidden),
        nn.Linear(edge_width, hidden),
        nn.Linear(hidden, out_width),
    ]
    return EdgeTransformer(ends, [EdgeTransformerLayer(hidden, heads) for _ in range(depth)])
