"""Multi-graph Transformer: each group of heads attends over a separate graph.

Formula: h = norm(h + O [heads of graph 1; …; heads of graph G]); h = norm(h + FFN(h))
Graph: union of G graphs on the same nodes, with G indicator features per edge
Score: ``Dot`` (scaled dot product); -∞ in the heads whose graph does not have the edge
Normalisation: softmax over the neighbourhood in that graph; batch norm after each sublayer
Update: residuals around attention and the feed-forward network; mean and max pooling; MLP
Paper: Xu, Joshi and Bresson, Multigraph Transformer for free-hand sketch recognition, 2019
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_divides
from edgewise.attention.biases import TableBias
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import (
    GraphLayer,
    Linear,
    Membership,
    Pool,
    TransformerLayer,
    check_edge_attr,
    is_dense,
)
from edgewise.models.arguments import model_factory


class MultiGraphTransformer(GraphLayer):
    """Multi-graph Transformer: each group of heads attends over a separate graph of the same nodes.

    Called as ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``. With one
    graph, the model is a graph Transformer; if this graph is complete, a plain Transformer.

    Args:
        edge_width: number of graphs G; each has ``heads / G`` heads (0 = one graph).

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.multi_graph_transformer(16, 3)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 3])
    """

    reads_edge_attr = True

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int = 0,
        width: int = 96,
        depth: int = 4,
        heads: int = 6,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        groups = max(edge_width, 1)
        check_divides(
            "edge_width", groups, heads, "the number of heads", "change the number of heads"
        )
        self.groups, self.embed = groups, Linear(in_width, width)
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, 4 * width, norm="batch", dropout=dropout)
            for _ in range(depth)
        )
        self.mean, self.maximum = Pool("mean"), Pool("max")
        self.head = nn.Sequential(
            nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, out_width)
        )
        # Row c is the bias of edges that are exactly in the graphs given by the bits of c.
        bits = torch.arange(2**groups)[:, None] >> torch.arange(groups) & 1
        outside = torch.zeros(2**groups, groups).masked_fill(bits == 0, -torch.inf)
        self.outside: Tensor
        self.register_buffer("outside", outside.repeat_interleave(heads // groups, dim=1), False)

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
    ) -> Tensor:
        """Return outputs ``[B, out_width]``.

        Edge e is in graph g if ``edge_attr[e, g]`` is positive; by default every edge is in all
        graphs.
        """
        graph = bind_to_nodes(graph, x)
        nodes = self.embed(x)
        # Compare before the cast, which could round small numbers to 0.
        if is_dense(edge_attr):
            edge_attr = (edge_attr > 0).to(x.dtype)
        check_edge_attr(edge_attr, graph, self.groups, like=x)
        bias = None if edge_attr is None else self.bias(edge_attr)
        for layer in self.layers:
            nodes = layer(nodes, graph, bias=bias)
        pooled = torch.cat([self.mean(nodes, batch), self.maximum(nodes, batch)], dim=-1)
        out: Tensor = self.head(pooled)
        return out

    def bias(self, edge_attr: Tensor) -> TableBias:
        """Return a bias of 0 for heads whose graph has the edge, and -∞ for other heads."""
        bits = 2 ** torch.arange(edge_attr.shape[1], device=edge_attr.device)
        return TableBias(((edge_attr > 0) * bits).sum(1), self.outside)


multi_graph_transformer = model_factory(MultiGraphTransformer, depth=0, edge_width=0)
