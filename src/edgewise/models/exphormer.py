"""Exphormer: attention on the edges, on an expander and through virtual nodes, all of them few.

Formula: h_i' = FFN(norm(h_i + local(h)_i) + norm(h_i + Σ_j softmax_j(q_i·(k_j + E e_ij) / √D) v_j))
Graph: the input graph for messages; for attention its edges, a regular expander, and virtual nodes
Score: Dot (scaled), with the edge's features and its kind in the key (the paper multiplies by them)
Normalisation: softmax; batch norm after each part
Update: residuals around both parts and the feed-forward network, as in GPS
Paper: Shirzad et al., Exphormer: sparse transformers for graphs, 2023
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edgewise.arguments import checked
from edgewise.biases import Projected
from edgewise.encodings.members import member_sizes
from edgewise.graphs import Edges, Graph, Pattern, expander
from edgewise.graphs import batch as batch_of
from edgewise.layers import Membership, check_edge_attr, packed_graph
from edgewise.layers.pooling import Pooling
from edgewise.models.gps import GPS, Local, NormName, Position
from edgewise.ragged import ranges, run_of_each, starts

KINDS = 4  # of edges: those of the graph, the expander's, to a virtual node, and from one


class Exphormer(GPS):
    """GPS with another graph for its attention; see :func:`exphormer`."""

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int,
        width: int,
        depth: int,
        heads: int,
        degree: int,
        virtual: int,
        seed: int,
        **of_gps: Any,
    ) -> None:
        of_gps |= {"edge_width": edge_width, "width": width, "depth": depth, "heads": heads}
        super().__init__(in_width, out_width, attention_graph=expander(degree, seed), **of_gps)
        self.virtual = nn.Parameter(torch.randn(virtual, width))
        self.edge = nn.ParameterList(
            torch.randn(heads, width // heads, edge_width + KINDS) * (edge_width + 1) ** -0.5
            for _ in range(depth)
        )

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """``[B, out_width]`` from x ``[N, in_width]`` and edges ``[E, edge_width]``.

        Args:
            x: features of nodes.
            graph: along which messages are sent.
            edge_attr: features of its edges; zeros where not given.
            batch: which nodes make up each of the B graphs; see :mod:`edgewise.models`.
            positions: what ``model.position.code(graph)`` gives, where it was computed before.

        """
        graph = packed_graph(x, graph, batch)
        check_edge_attr(edge_attr, graph, self.edge_width, self.embed.weight)
        x = self.placed(x, graph, positions)
        if edge_attr is None:
            edge_attr = x.new_zeros(graph.num_edges, self.edge_width)

        virtual, nodes, local, reads, kinds = self.reads(graph)
        members = len(virtual) // max(len(self.virtual), 1)
        states = x.new_zeros(len(virtual) + len(nodes), x.shape[-1])
        states = states.index_copy(0, virtual, self.virtual.repeat(members, 1))
        states = states.index_copy(0, nodes, x)
        features = self.edge_features(edge_attr, kinds)
        for layer, weight in zip(self.layers, self.edge, strict=True):
            edge_key = Projected(features, weight)
            states = layer(states, local, reads, edge_attr, edge_key=edge_key)
        out: Tensor = self.head(self.pool(states[nodes], batch))
        return out

    def reads(self, graph: Graph) -> tuple[Tensor, Tensor, Graph, Graph, Tensor]:
        """Where virtual nodes ``[G · V]`` and others ``[N]`` are, both graphs, and kinds of edges.

        V virtual nodes stand before each graph. The second graph is of who attends to whom, by
        E + degree · N + 2 V N edges, of which each has a kind. Kept for as long as the graph is.
        """
        count = len(self.virtual)

        def make() -> tuple[Tensor, Tensor, Graph, Graph, Tensor]:
            sizes = member_sizes(graph)
            first = starts(sizes + count)
            virtual = ranges(first, torch.full_like(sizes, count))
            nodes = ranges(first + count, sizes)
            near = nodes[graph.edge_index]
            far = nodes[batch_of(self.attention_graph, sizes).edge_index.to(nodes.device)]
            own = run_of_each(sizes, len(nodes)) * count
            hub = virtual[own[:, None] + torch.arange(count, device=nodes.device)].flatten()
            node = nodes.repeat_interleave(count)
            parts = [near, far, torch.stack([node, hub]), torch.stack([hub, node])]
            kinds = [torch.full((part.shape[1],), kind) for kind, part in enumerate(parts)]
            total = len(virtual) + len(nodes)
            local, reads = (Edges(each, total, total) for each in (near, torch.cat(parts, dim=1)))
            return virtual, nodes, local, reads, torch.cat(kinds).to(nodes.device)

        return graph.cached(("exphormer", self.attention_graph, count), make)

    def edge_features(self, edge_attr: Tensor, kinds: Tensor) -> Tensor:
        """``[edges, edge_width + 4]``: those of the graph's own edges, and the kind, one-hot."""
        own = edge_attr.new_zeros(len(kinds), self.edge_width)
        own = own.index_copy(0, (kinds == 0).nonzero()[:, 0], edge_attr)
        return torch.cat([own, nn.functional.one_hot(kinds, KINDS).to(own)], dim=1)


@checked(depth=0, edge_width=0, degree=0, virtual=0, seed=0)
def exphormer(
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
) -> Exphormer:
    """Build an Exphormer.

    Called as ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``. Attention has
    E + ``degree`` · N + 2 · ``virtual`` · N edges in place of N². The expander depends on the node
    order. Attention uses edge features whatever ``local`` is.

    Args:
        in_width: number of input features per node.
        out_width: number of outputs per graph, such as the number of classes or targets.
        edge_width: number of features per edge (0 = none).
        local: message-passing layer: "gine" (uses edge features), "gcn", "gat" or "none".
        position: positional encoding: "random_walk", "laplacian" or "none".
        position_size: number of return probabilities or eigenvectors in the positional encoding.
        width: hidden size.
        depth: number of layers.
        heads: number of attention heads per layer.
        degree: degree of the expander graph (0 = none).
        virtual: number of virtual nodes connected to all nodes of a graph (0 = none).
        seed: random seed of the expander graphs.
        norm: kind of norm: "batch" or "layer".
        pool: readout that pools node states to one vector per graph, such as "mean" or "sum".
        dropout: dropout probability of the input, both branches and the feed-forward network.
        attention_dropout: dropout probability of the attention weights.
    """
    return Exphormer(
        in_width,
        out_width,
        edge_width=edge_width,
        local=local,
        position=position,
        position_size=position_size,
        width=width,
        depth=depth,
        heads=heads,
        degree=degree,
        virtual=virtual,
        seed=seed,
        norm=norm,
        pool=pool,
        dropout=dropout,
        attention_dropout=attention_dropout,
    )
