"""Graph Transformer that updates features of nodes and edges.

Formula: s_ij = q_i ∘ k_j ∘ (E e_ij) / √D; h_i' = Σ_j softmax_j(Σ s_ij) v_j; e_ij' = O s_ij
Graph: the input graph
Score: sum of the entries of s_ij; computed without ``attend``, which returns no vector per edge
Normalisation: softmax over the neighbourhood; batch norm after each sublayer
Update: residual connections around attention and the feed-forward networks of nodes and edges
Paper: Dwivedi and Bresson, A generalization of Transformer networks to graphs, 2020
"""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor, nn

from edgewise._utils.arguments import check_choice, check_divides
from edgewise.attention.attend import aggregate
from edgewise.attention.steps import edge_softmax
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import (
    FeedForward,
    GraphLayer,
    Linear,
    Membership,
    NodeBatchNorm,
    Residual,
    given_or_ones,
)
from edgewise.models.arguments import model_factory

Focus = Literal["nodes", "edges"]


class EdgeTransformerLayer(GraphLayer):
    """Layer that updates features of nodes ``[..., N, width]`` and edges ``[..., E, width]``."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.edge = nn.Linear(width, width)
        self.node_output = nn.Linear(width, width)
        self.edge_output = nn.Linear(width, width)
        self.node_norm, self.edge_norm = NodeBatchNorm(width), NodeBatchNorm(width)
        self.node_network = Residual(FeedForward(width, 2 * width), width, norm="batch")
        self.edge_network = Residual(FeedForward(width, 2 * width), width, norm="batch")

    def forward(self, x: Tensor, graph: Pattern, edge_attr: Tensor) -> tuple[Tensor, Tensor]:
        graph = bind_to_nodes(graph, x)
        query = self.query(x).unflatten(-1, (self.heads, -1))
        key = self.key(x).unflatten(-1, (self.heads, -1))
        value = self.value(x).unflatten(-1, (self.heads, -1))
        edge = self.edge(edge_attr).unflatten(-1, (self.heads, -1))

        product = graph.gather_target(query, -3) * graph.gather_source(key, -3)
        score = product * edge * query.shape[-1] ** -0.5  # [..., E, H, D]
        heads = aggregate(value, graph, weight=edge_softmax(score.sum(-1), graph))

        x = self.node_norm(x + self.node_output(heads.flatten(-2)))
        edge_attr = self.edge_norm(edge_attr + self.edge_output(score.flatten(-2)))
        return self.node_network(x), self.edge_network(edge_attr)


class EdgeTransformer(GraphLayer):
    """Graph Transformer that updates features of nodes and edges.

    Called as ``model(x [..., N, in_width], graph, edge_attr=[E, edge_width])``. In evaluation, a
    node's output depends only on the nodes up to ``depth`` steps away; in training, batch norm uses
    all nodes.

    Args:
        out_width: number of outputs per node, or per edge if ``focus="edges"``.
        focus: objects to predict: "nodes" or "edges".

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.edge_transformer(16, 3)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """

    reads_edge_attr = True

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int = 0,
        width: int = 64,
        depth: int = 4,
        heads: int = 8,
        focus: Focus = "nodes",
    ) -> None:
        super().__init__()
        check_choice("focus", focus, get_args(Focus))
        self.focus: Focus = focus
        self.embed_nodes = Linear(in_width, width)
        self.edge_width = edge_width or 1
        self.embed_edges = nn.Linear(self.edge_width, width)
        self.layers = nn.ModuleList(EdgeTransformerLayer(width, heads) for _ in range(depth))
        self.head = nn.Linear(width, out_width)

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,  # noqa: ARG002 - no edge joins two graphs of a batch
    ) -> Tensor:
        """Return outputs ``[..., N, out_width]``, or ``[..., E, out_width]`` if ``focus="edges"``.

        Edge features are ones by default.
        """
        nodes, edges = self.states(x, graph, edge_attr=edge_attr)
        out: Tensor = self.head(nodes if self.focus == "nodes" else edges)
        return out

    def states(
        self, x: Tensor, graph: Pattern, *, edge_attr: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the states after the last layer, ``[..., N, width]`` and ``[..., E, width]``."""
        graph = bind_to_nodes(graph, x)
        nodes = self.embed_nodes(x)
        edge_attr = given_or_ones(edge_attr, graph, self.edge_width, like=x, batched=True)
        edges = self.embed_edges(edge_attr)
        for layer in self.layers:
            nodes, edges = layer(nodes, graph, edges)
        return nodes, edges


edge_transformer = model_factory(EdgeTransformer, edge_width=0, depth=0)
