"""Message passing with a complete graph in the last layer, which reduces over-squashing.

Formula: h_i' = norm(h_i + max(0, layer(h, G)_i)), with a complete graph for G in the last layer
Graph: the input graph; in the last layer the complete graph (or the input graph, as a baseline)
Score: by layer type: none (GCN, GIN), ``Additive`` (GAT, GATv2) or ``Dot`` (Transformer)
Normalisation: that of the layer type; layer norm after each layer
Update: residual connection around each layer
Paper: Alon and Yahav, On the bottleneck of graph neural networks and its practical implications,
    2021
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from torch import Tensor, nn

from edgewise._utils.arguments import check_choice, check_divides
from edgewise.encodings.members import member_graphs
from edgewise.graphs import Pattern
from edgewise.layers import (
    GraphLayer,
    Linear,
    Membership,
    MultiHeadAttention,
    Pool,
    packed_graph,
    refuse_edge_attr,
)
from edgewise.layers.pooling import Pooling
from edgewise.models.arguments import model_factory
from edgewise.models.gat import GATLayer
from edgewise.models.gatv2 import GATv2Layer
from edgewise.models.gcn import GCNLayer
from edgewise.models.gin import GINLayer

Layer = Literal["gcn", "gin", "gat", "gatv2", "transformer"]
Last = Literal["complete", "graph"]


def gin_layer(width: int) -> GINLayer:
    """Return a GIN layer with a two-layer network."""
    return GINLayer(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))


LAYERS: dict[str, Callable[[int, int], GraphLayer]] = {
    "gcn": lambda width, _heads: GCNLayer(width, width),
    "gin": lambda width, _heads: gin_layer(width),
    "gat": lambda width, heads: GATLayer(width, width // heads, heads),
    "gatv2": lambda width, heads: GATv2Layer(width, width // heads, heads),
    "transformer": MultiHeadAttention,
}


class FullyAdjacent(GraphLayer):
    """Message-passing network whose last layer has a complete graph.

    Called as ``model(x [N, in_width], graph, batch=...)``. In the complete last layer, GCN and GIN
    give all nodes the same weight, so they cannot select a distant node.

    Args:
        layer: layer type: "gcn", "gin", "gat", "gatv2" or "transformer".
        last: graph of the last layer: "complete", or "graph" for the input graph (the baseline).

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.fully_adjacent(16, 3)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        layer: Layer = "gatv2",
        last: Last = "complete",
        width: int = 32,
        depth: int = 4,
        heads: int = 4,
        pool: Pooling = "mean",
    ) -> None:
        super().__init__()
        check_choice("layer", layer, get_args(Layer))
        check_choice("last", last, get_args(Last))
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.last = last
        self.embed = Linear(in_width, width)
        self.layers = nn.ModuleList(LAYERS[layer](width, heads) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.pool, self.head = Pool(pool), nn.Linear(width, out_width)

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
        graph = packed_graph(x, graph, batch)
        graphs = [graph] * len(self.layers)
        if self.last == "complete":
            graphs[-1] = member_graphs(graph)
        x = self.embed(x)
        for layer, norm, layer_graph in zip(self.layers, self.norms, graphs, strict=True):
            x = norm(x + layer(x, layer_graph).relu())
        out: Tensor = self.head(self.pool(x, batch))
        return out


fully_adjacent = model_factory(FullyAdjacent)
