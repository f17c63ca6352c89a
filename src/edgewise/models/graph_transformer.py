"""Graph Transformer: attention on the edges, with optional edge weights.

Formula: h = norm(h + Σ_j softmax_j(e_ij · q_i·k_j / √D) v_j); h = norm(h + FFN(h))
Graph: the input graph
Score: ``Dot`` (scaled dot product), times the edge weight e_ij if given
Normalisation: softmax over the neighbourhood; batch norm after each sublayer
Update: residual connections around attention and around the feed-forward network
Paper: Dwivedi and Bresson, A generalization of Transformer networks to graphs, 2020
"""

from __future__ import annotations

from torch import Tensor, nn

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import GraphLayer, Linear, Membership, TransformerLayer, is_dense
from edgewise.layers.transformer import Norm, Projections
from edgewise.models.arguments import model_function


class GraphTransformer(GraphLayer):
    """Graph Transformer: an input layer, Transformer layers, and an output layer."""

    reads_edge_attr = True

    def __init__(self, embed: nn.Module, layers: list[TransformerLayer], head: nn.Module) -> None:
        super().__init__()
        self.embed, self.layers, self.head = embed, nn.ModuleList(layers), head

    def stages(self) -> list[nn.Module]:
        return [self.embed, *self.layers, self.head]

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,  # noqa: ARG002 - no edge joins two graphs of a batch
    ) -> Tensor:
        """Return outputs ``[..., N, out_width]``."""
        graph = bind_to_nodes(graph, x)
        if is_dense(edge_attr) and edge_attr.dim() == 1:
            edge_attr = edge_attr.unsqueeze(-1)  # All heads use the same weight.
        if edge_attr is not None:
            is_float = is_dense(edge_attr) and edge_attr.is_floating_point()
            if not is_float or edge_attr.shape[-2:-1] != (graph.num_edges,):
                raise ArgumentError(
                    "edge_attr",
                    expected=f"weights [{graph.num_edges}], one per edge, in floating point",
                    got=describe(edge_attr),
                    remedy="give one weight per edge; call .float() on integers",
                )
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, graph, gain=edge_attr)
        out: Tensor = self.head(x)
        return out


@model_function(depth=0)
def graph_transformer(
    in_width: int,
    out_width: int,
    *,
    width: int = 64,
    depth: int = 4,
    heads: int = 8,
    projections: Projections = "full",
    norm: Norm = "batch",
    dropout: float = 0.0,
) -> GraphTransformer:
    """Build a graph Transformer, whose nodes attend to their neighbours in the graph.

    Called as ``model(x [..., N, in_width], graph, edge_attr=weight [E])``. In evaluation, a node's
    output depends only on the nodes up to ``depth`` steps away; in training, batch norm (the
    default) uses all nodes.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.graph_transformer(16, 3)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """
    layers = [
        TransformerLayer(
            width, heads, 2 * width, projections=projections, norm=norm, dropout=dropout
        )
        for _ in range(depth)
    ]
    return GraphTransformer(Linear(in_width, width), layers, nn.Linear(width, out_width))
