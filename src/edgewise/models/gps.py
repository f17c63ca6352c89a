"""GPS: message passing on the edges and global attention in parallel, in each layer.

Formula: h_i' = FFN(norm(h_i + local(h)_i) + norm(h_i + Σ_j softmax_j(q_i·k_j / √D) v_j))
Graph: the input graph for messages; complete by default for attention
Score: ``Dot`` (scaled dot product)
Normalisation: softmax; batch norm after each branch
Update: residual connections around both branches and the feed-forward network
Paper: Rampášek et al., Recipe for a general, powerful, scalable graph Transformer, 2022
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Unpack

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import aggregate
from edgewise.attention.biases import EdgeTerms
from edgewise.encodings.members import member_graphs
from edgewise.graphs import Graph, Pattern, complete, incidence
from edgewise.layers import GraphLayer, MultiHeadAttention, activation
from edgewise.layers.pooling import Pooling
from edgewise.layers.transformer import Norm, make_norm
from edgewise.models.arguments import model_factory
from edgewise.models.gat import GATLayer
from edgewise.models.gcn import GCNLayer
from edgewise.models.graph_encoder import GraphEncoder, Position

NormName = Literal["batch", "layer"]
Local = Literal["gine", "gcn", "gat", "none"]


class GINELayer(GraphLayer):
    r"""GIN with edge features (Hu et al., Strategies for pre-training graph neural networks, 2020),
    :math:`\mathrm{MLP}((1 + ε) h_i + \sum_j \max(0, h_j + E e_{ij}))`; without them E e = 0.
    """

    reads_edge_attr = True

    def __init__(self, width: int, edge_width: int = 0) -> None:
        super().__init__()
        self.edge = nn.Linear(edge_width, width) if edge_width else None
        self.network = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.epsilon = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, graph: Graph, edge_attr: Tensor | None = None) -> Tensor:
        """Return features ``[..., N, width]``."""
        if self.edge is not None and edge_attr is not None:
            message = (graph.gather_source(x) + self.edge(edge_attr)).relu()
            total = aggregate(message.unsqueeze(-2), incidence(graph)).squeeze(-2)
        else:  # Without edge features, a node sends the same message to all neighbours.
            total = aggregate(x.relu().unsqueeze(-2), graph).squeeze(-2)
        out: Tensor = self.network((1 + self.epsilon) * x + total)
        return out


class GPSLayer(GraphLayer):
    """GPS layer: message passing and attention in parallel (``GPSConv`` in PyG). ``local`` is
    called with edge features if it takes them; None for attention only.
    """

    reads_edge_attr = True

    def __init__(
        self,
        width: int,
        local: GraphLayer | None,
        heads: int,
        *,
        act: str = "relu",
        norm: Norm = "batch",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.local = local
        self.attention = MultiHeadAttention(width, heads, dropout=attention_dropout)
        self.dropout = nn.Dropout(dropout)
        self.local_norm = make_norm(norm, width)
        self.attention_norm = make_norm(norm, width)
        self.norm = make_norm(norm, width)
        self.network = nn.Sequential(
            nn.Linear(width, 2 * width),
            activation(act),
            nn.Dropout(dropout),
            nn.Linear(2 * width, width),
            nn.Dropout(dropout),
        )

    def forward(
        self,
        x: Tensor,
        graph: Graph,
        attention_graph: Pattern,
        edge_attr: Tensor | None = None,
        **terms: Unpack[EdgeTerms],
    ) -> Tensor:
        """Return features ``[..., N, width]`` from x of the same shape."""
        attention = self.attention(x, attention_graph, **terms)
        out: Tensor = self.attention_norm(x + self.dropout(attention))
        if self.local is not None:
            edge_args = (edge_attr,) if self.local.reads_edge_attr else ()
            out = out + self.local_norm(x + self.dropout(self.local(x, graph, *edge_args)))
        out = self.norm(out + self.network(out))
        return out


LOCAL: dict[Local, Callable[[int, int, int], GraphLayer | None]] = {
    "gine": lambda width, edge_width, _heads: GINELayer(width, edge_width),
    "gcn": lambda width, _edge_width, _heads: GCNLayer(width, width),
    "gat": lambda width, _edge_width, heads: GATLayer(width, width // heads, heads),
    "none": lambda *_sizes: None,
}
"""Functions ``f(width, edge_width, heads)`` that build a message-passing layer, by name. Only GINE
uses edge features."""


class GPS(GraphEncoder):
    """GPS graph Transformer: each layer has message passing and global attention in parallel.

    Called as ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``. For one large
    graph, prefer ``norm="layer"``: with one step per epoch, the running statistics of batch norm
    average few steps.

    Args:
        local: message-passing layer: "gine" (uses edge features), "gcn", "gat" or "none".
        attention_graph: attention graph, built for each graph of a batch.
        norm: kind of norm: "batch" or "layer".
        dropout: dropout probability of the input, both branches and the feed-forward network.
        attention_dropout: dropout probability of the attention weights.

    Raises:
        ArgumentError: ``edge_width`` is positive but ``local`` does not use edge features,
            ``output_hops`` is positive but ``pool`` is not "none", or a choice is unknown.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.gps(16, 1, depth=2)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 1])
    """

    attention_uses_edge_attr = False
    """Whether attention uses edge features, in addition to the message-passing layer "gine"."""

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int = 0,
        local: Local = "gine",
        position: Position = "random_walk",
        position_size: int = 20,
        width: int = 64,
        depth: int = 10,
        heads: int = 4,
        attention_graph: Pattern = complete(),
        norm: NormName = "batch",
        pool: Pooling = "sum",
        dropout: float = 0.0,
        attention_dropout: float = 0.5,
        output_hops: int = 0,
    ) -> None:
        check_choice("local", local, LOCAL)
        if edge_width and local != "gine" and not self.attention_uses_edge_attr:
            raise ArgumentError(
                "local",
                expected="gine, the only local layer that uses edge features, if edge_width > 0",
                got=f"{local}, with edge_width={edge_width}",
                remedy="choose gine, or data without edge features (for example data.bonds=false)",
            )
        layers = (
            GPSLayer(
                width,
                LOCAL[local](width, edge_width, heads),
                heads,
                norm=norm,
                dropout=dropout,
                attention_dropout=attention_dropout,
            )
            for _ in range(depth)
        )
        super().__init__(
            in_width,
            out_width,
            layers,
            edge_width=edge_width,
            position=position,
            position_size=position_size,
            width=width,
            pool=pool,
            dropout=dropout,
            output_hops=output_hops,
        )
        self.attention_graph = attention_graph

    def transform(self, x: Tensor, graph: Graph, edge_attr: Tensor | None) -> Tensor:
        attention_graph = member_graphs(graph, self.attention_graph)
        for layer in self.layers:
            x = layer(x, graph, attention_graph, edge_attr)
        return x


gps = model_factory(GPS, depth=0, edge_width=0, output_hops=0)
