"""Exphormer: sparse attention on graph edges, expander edges and virtual nodes.

Formula: h_i' = FFN(norm(h_i + local(h)_i) + norm(h_i + Σ_j softmax_j(q_i·(k_j + E e_ij) / √D) v_j))
Graph: the input graph for messages; attention on its edges, a regular expander and virtual nodes
Score: ``Dot`` (scaled), with edge features and edge type added to the key (multiplied in the paper)
Normalisation: softmax; batch norm after each branch
Update: residual connections around both branches and the feed-forward network, as in GPS
Paper: Shirzad et al., Exphormer: sparse transformers for graphs, 2023
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise._utils.ragged import ranges, segment_index, starts
from edgewise.attention.biases import Projected
from edgewise.encodings.members import member_graphs, member_sizes
from edgewise.graphs import Edges, Graph, Pattern, expander
from edgewise.layers.pooling import Pooling
from edgewise.models.arguments import model_factory
from edgewise.models.gps import GPS, Local, NormName
from edgewise.models.graph_encoder import Position

KINDS = 4  # edge types: input graph, expander, node to virtual node, virtual node to node


class AttentionGraphs(NamedTuple):
    """Graphs of a batch with V virtual nodes before each of its G graphs."""

    virtual: Tensor
    """Indices of the virtual nodes, ``[G · V]``."""
    nodes: Tensor
    """Indices of the input nodes, ``[N]``."""
    local: Graph
    """Graph for message passing: the input edges."""
    attention: Graph
    """Graph for attention: the input edges, expander edges, and edges to and from virtual nodes."""
    kinds: Tensor
    """Type of each edge of ``attention``, ``[E']``."""


class Exphormer(GPS):
    """Exphormer: GPS with sparse attention, on edges, expander edges and virtual nodes.

    Called as ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``. Attention has
    at most E + ``degree`` · N + 2 · ``virtual`` · N edges instead of N². The expander depends on
    the node order. Attention uses edge features for every choice of ``local``. The other arguments
    are those of :class:`GPS`.

    Args:
        pool: readout that pools node states to one vector per graph, such as "mean" or "sum".
        degree: degree of the expander graph, an even number (0 = none).
        virtual: number of virtual nodes connected to all nodes of a graph (0 = none).
        seed: random seed of the expander graphs.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.exphormer(16, 1)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 1])
    """

    attention_uses_edge_attr = True

    accepts_leading_dims = False

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
        depth: int = 5,
        heads: int = 4,
        degree: int = 4,
        virtual: int = 1,
        seed: int = 0,
        norm: NormName = "batch",
        pool: Pooling = "sum",
        dropout: float = 0.0,
        attention_dropout: float = 0.1,
        output_hops: int = 0,
    ) -> None:
        super().__init__(
            in_width,
            out_width,
            edge_width=edge_width,
            local=local,
            position=position,
            position_size=position_size,
            width=width,
            depth=depth,
            heads=heads,
            attention_graph=expander(degree, seed),
            norm=norm,
            pool=pool,
            dropout=dropout,
            attention_dropout=attention_dropout,
            output_hops=output_hops,
        )
        self.virtual = nn.Parameter(torch.randn(virtual, width))
        self.edge = nn.ParameterList(
            torch.randn(heads, width // heads, edge_width + KINDS) * (edge_width + 1) ** -0.5
            for _ in range(depth)
        )

    def transform(self, x: Tensor, graph: Graph, edge_attr: Tensor | None) -> Tensor:
        """Apply all layers to node embeddings ``[N, width]``; edge features default to zeros."""
        if edge_attr is None:
            edge_attr = x.new_zeros(graph.num_edges, self.edge_width)
        virtual, nodes, local, attention, kinds = self.build_graphs(graph)
        num_graphs = len(virtual) // max(len(self.virtual), 1)
        states = x.new_zeros(len(virtual) + len(nodes), x.shape[-1])
        states = states.index_copy(0, virtual, self.virtual.repeat(num_graphs, 1))
        states = states.index_copy(0, nodes, x)
        features = self.edge_features(edge_attr, kinds)
        for layer, weight in zip(self.layers, self.edge, strict=True):
            edge_key = Projected(features, weight)
            states = layer(states, local, attention, edge_attr, edge_key=edge_key)
        return states[nodes]

    def build_graphs(self, graph: Graph) -> AttentionGraphs:
        """Return the graphs for message passing and for attention, with virtual nodes."""
        return graph.derived(_attention_graphs, self.attention_graph, len(self.virtual))

    def edge_features(self, edge_attr: Tensor, kinds: Tensor) -> Tensor:
        """Return features ``[E', edge_width + 4]`` of attention edges: input (or 0), then type."""
        features = F.pad(edge_attr, (0, 0, 0, len(kinds) - len(edge_attr)))
        return torch.cat([features, F.one_hot(kinds, KINDS).to(features)], dim=1)


def _attention_graphs(graph: Graph, pattern: Pattern, count: int) -> AttentionGraphs:
    sizes = member_sizes(graph)
    first = starts(sizes + count)
    virtual = ranges(first, torch.full_like(sizes, count))
    nodes = ranges(first + count, sizes)
    input_edges = nodes[graph.edge_index]
    expander_edges = nodes[member_graphs(graph, pattern).edge_index]
    first_hub = segment_index(sizes, len(nodes)) * count
    hub = virtual[first_hub[:, None] + torch.arange(count, device=nodes.device)].flatten()
    node = nodes.repeat_interleave(count)
    to_hubs, from_hubs = torch.stack([node, hub]), torch.stack([hub, node])
    edge_lists = [input_edges, expander_edges, to_hubs, from_hubs]
    kinds = [torch.full((edge_list.shape[1],), kind) for kind, edge_list in enumerate(edge_lists)]
    total = len(virtual) + len(nodes)
    local = Edges(input_edges, total, total)
    attention = Edges(torch.cat(edge_lists, dim=1), total, total)
    return AttentionGraphs(virtual, nodes, local, attention, torch.cat(kinds).to(nodes.device))


exphormer = model_factory(
    Exphormer, depth=0, edge_width=0, degree=0, virtual=0, seed=0, output_hops=0
)
