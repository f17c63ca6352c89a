"""Edge-set attention (ESA): the edges are tokens, which attend to the edges that share a node.

Formula: h_e = MLP([x_i; x_j; e_ij]) for edges e from j to i; M and S: h = h + attention(h), then
    h = h + FFN(h); P: z_s = attention(seed_s, h), then z = z + FFN(z); S on z; mean over the seeds
Graph: M: the line graph; S: all pairs of edges, or of seeds, of a graph; P: from edges to seeds
Score: ``Dot`` (scaled dot product)
Encoding: random-walk probabilities, added to the node features
Normalisation: softmax; layer norm before each sublayer
Update: residual connections around attention and feed-forward networks
Paper: Buterez et al., An end-to-end attention-based approach for learning on graphs, 2025
"""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import segment_index, starts
from edgewise.encodings.members import member_sizes
from edgewise.graphs import Edges, Graph, Intervals, complete, line_graph
from edgewise.graphs import batch as batch_of
from edgewise.layers import (
    FeedForward,
    GraphLayer,
    Membership,
    MultiHeadAttention,
    Residual,
    TransformerLayer,
    outputs_of_graphs,
)
from edgewise.models.arguments import model_factory
from edgewise.models.graph_encoder import GraphEncoder, Position


class PoolingBlock(GraphLayer):
    """Attention of learned seeds to the edges of each graph, then a feed-forward network."""

    def __init__(self, width: int, heads: int, seeds: int, *, act: str, dropout: float) -> None:
        super().__init__()
        self.seeds = nn.Parameter(torch.empty(seeds, width))
        nn.init.xavier_uniform_(self.seeds)
        self.norm = nn.LayerNorm(width)
        self.attention = MultiHeadAttention(width, heads, source_width=width, dropout=dropout)
        network = FeedForward(width, 2 * width, act=act, dropout=dropout)
        self.network = Residual(network, width, order="pre", dropout=dropout)

    def forward(self, x: Tensor, members: Graph) -> Tensor:
        """Return states of seeds ``[G · seeds, width]`` from x ``[E, width]``; ``members`` has the
        edges of its graph as the sources of each seed.
        """
        seeds = self.seeds.repeat(members.num_targets // len(self.seeds), 1).to(x.dtype)
        out: Tensor = self.network(self.attention(seeds, members, self.norm(x)))
        return out


class ESA(GraphEncoder):
    """Edge-set attention (ESA) for whole graphs.

    Called as ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``. Nodes without
    edges do not reach the output.

    Args:
        blocks: letters of the blocks in order: M (masked: attention to edges that share a node),
            S (attention to all edges of the graph) and one P (pooling to the seeds). After P, only
            S is possible.
        seeds: number of vectors per graph after pooling.
        dropout: dropout probability of the input, attention weights and sublayers.

    Raises:
        ArgumentError: ``blocks`` is not such a text.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.esa(16, 1)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 1])
    """

    accepts_leading_dims = False

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int = 0,
        position: Position = "random_walk",
        position_size: int = 20,
        width: int = 64,
        heads: int = 4,
        blocks: str = "MMSMSPS",
        seeds: int = 16,
        act: str = "gelu",
        dropout: float = 0.0,
    ) -> None:
        if not isinstance(blocks, str) or not re.fullmatch("[MS]*PS*", blocks):
            raise ArgumentError(
                "blocks",
                expected="letters M and S, then one P, then letters S",
                got=repr(blocks),
                remedy='choose for example "MMSPS"',
            )
        layers = (
            PoolingBlock(width, heads, seeds, act=act, dropout=dropout)
            if block == "P"
            else TransformerLayer(width, heads, 2 * width, act=act, order="pre", dropout=dropout)
            for block in blocks
        )
        super().__init__(
            in_width,
            out_width,
            layers,
            edge_width=edge_width,
            position=position,
            position_size=position_size,
            width=width,
            pool="none",
            dropout=dropout,
        )
        self.blocks, self.seeds = blocks, seeds
        self.embed_edges = nn.Sequential(
            nn.Linear(2 * width + edge_width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.norm = nn.LayerNorm(width)

    def transform(self, x: Tensor, graph: Graph, edge_attr: Tensor | None) -> Tensor:
        """Return states of graphs ``[G, width]``; edge features default to zeros."""
        order, line, pairs = graph.derived(_edge_graphs)
        members, seed_pairs = graph.derived(_seed_graphs, self.seeds)
        if edge_attr is None:
            edge_attr = x.new_zeros(graph.num_edges, self.edge_width)
        ends = graph.gather_source(x), graph.gather_target(x)
        h = self.embed_edges(torch.cat([*ends, edge_attr.to(x.dtype)], dim=-1)[order])
        for block, layer in zip(self.blocks, self.layers, strict=True):
            if block == "P":
                h, pairs = layer(h, members), seed_pairs
            else:
                h = layer(h, line if block == "M" else pairs)
        out: Tensor = self.norm(h).unflatten(0, (-1, self.seeds)).mean(1)
        return out

    def readout(self, states: Tensor, graph: Graph, batch: Membership) -> Tensor:
        return outputs_of_graphs(states, member_sizes(graph), batch)


def _edge_sizes(graph: Graph) -> tuple[Tensor, Tensor]:
    """Return the order of the edges by graph ``[E]``, and their number in each graph ``[G]``."""
    nodes = member_sizes(graph)
    owner = segment_index(nodes, graph.num_targets)[graph.target]
    return owner.argsort(stable=True), owner.bincount(minlength=len(nodes))


def _edge_graphs(graph: Graph) -> tuple[Tensor, Graph, Graph]:
    """Return the order of the edges by graph, their line graph, and that of all their pairs."""
    order, sizes = graph.derived(_edge_sizes)
    nodes = member_sizes(graph)
    edge_index = graph.edge_index[:, order]
    by_graph = Edges(edge_index, graph.num_targets, graph.num_sources, (nodes, nodes))
    return order, line_graph(by_graph), batch_of(complete(), sizes).to(graph.device)


def _seed_graphs(graph: Graph, seeds: int) -> tuple[Graph, Graph]:
    """Return the graphs from the edges of each graph to its seeds, and of all pairs of seeds."""
    sizes = graph.derived(_edge_sizes)[1]
    start = starts(sizes).repeat_interleave(seeds)
    members = Intervals(start, start + sizes.repeat_interleave(seeds), graph.num_edges)
    return members, batch_of(complete(), torch.full_like(sizes, seeds)).to(graph.device)


esa = model_factory(ESA, edge_width=0)
