"""Exphormer: attention on the edges, on an expander and through virtual nodes, all of them few.

Formula: h_i' = FFN(norm(h_i + local(h)_i) + norm(h_i + Σ_j softmax_j(q_i·(k_j + E e_ij) / √D) v_j))
Graph: the input graph for messages; for attention its edges, a regular expander, and virtual nodes
Score: Dot (scaled), with the edge's features and its kind in the key (the paper multiplies by them)
Normalisation: softmax; batch norm after each part
Update: residuals around both parts and the feed-forward network, as in GPS
Paper: Shirzad et al., Exphormer: sparse transformers for graphs, 2023
"""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn

from edgewise.arguments import check_choice, checked
from edgewise.biases import Projected
from edgewise.encodings import Laplacian, RandomWalk
from edgewise.encodings.members import member_sizes
from edgewise.graphs import Edges, Graph, Pattern, expander
from edgewise.graphs import batch as batch_of
from edgewise.layers import GraphLayer, Membership, Pool, check_edge_attr, packed_graph
from edgewise.layers.pooling import Pooling
from edgewise.models.gps import GINELayer, GPSLayer, Position
from edgewise.ragged import ranges, starts

KINDS = 4  # of edges: those of the graph, the expander's, to a virtual node, and from one


class Exphormer(GraphLayer):
    """See :func:`exphormer`."""

    reads_edge_attr = True

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int,
        position: Position,
        position_size: int,
        width: int,
        depth: int,
        heads: int,
        degree: int,
        virtual: int,
        seed: int,
        pool: Pooling,
        dropout: float,
        attention_dropout: float,
    ) -> None:
        super().__init__()
        check_choice("position", position, get_args(Position))
        self.embed = nn.Linear(in_width, width)
        self.position: RandomWalk | Laplacian | None = None
        if position != "none":
            kind = RandomWalk if position == "random_walk" else Laplacian
            self.position = kind(width, position_size)
        self.expander, self.edge_width = expander(degree, seed), edge_width
        self.virtual = nn.Parameter(torch.randn(virtual, width))
        self.layers = nn.ModuleList(
            GPSLayer(
                width,
                GINELayer(width, edge_width),
                heads,
                dropout=dropout,
                attention_dropout=attention_dropout,
            )
            for _ in range(depth)
        )
        self.edge = nn.ParameterList(
            torch.randn(heads, width // heads, edge_width + KINDS) * (edge_width + 1) ** -0.5
            for _ in range(depth)
        )
        self.pool = Pool(pool)
        self.head = nn.Sequential(
            nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, out_width)
        )

    def encodings(self) -> dict[str, nn.Module]:
        return {} if self.position is None else {"positions": self.position}

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
        check_edge_attr(edge_attr, graph, self.edge_width)
        sizes = member_sizes(graph)
        x = self.embed(x)
        if self.position is not None:
            x = self.position(x, self.position.code(graph) if positions is None else positions)
        if edge_attr is None:
            edge_attr = x.new_zeros(graph.num_edges, self.edge_width)

        virtual, nodes = self.places(sizes)
        states = x.new_zeros(len(virtual) + len(nodes), x.shape[-1])
        states = states.index_copy(0, virtual, self.virtual.repeat(len(sizes), 1))
        states = states.index_copy(0, nodes, x)
        local = Edges(nodes[graph.edge_index], len(states), len(states))
        attention_graph, kinds = self.attention_graph(graph, sizes, virtual, nodes)
        features = self.edge_features(edge_attr, kinds)
        for layer, weight in zip(self.layers, self.edge, strict=True):
            edge_key = Projected(features, weight)
            states = layer(states, local, attention_graph, edge_attr, edge_key=edge_key)
        out: Tensor = self.head(self.pool(states[nodes], batch))
        return out

    def places(self, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """Where virtual nodes ``[G · V]``, V before each graph, and the others ``[N]`` are."""
        count = len(self.virtual)
        first = starts(sizes + count)
        return ranges(first, torch.full_like(sizes, count)), ranges(first + count, sizes)

    def attention_graph(
        self, graph: Graph, sizes: Tensor, virtual: Tensor, nodes: Tensor
    ) -> tuple[Graph, Tensor]:
        """Who attends to whom, E + degree · N + 2 V N edges, and the kind of each."""
        near = nodes[graph.edge_index]
        far = nodes[batch_of(self.expander, sizes).edge_index.to(nodes.device)]
        count = len(self.virtual)
        own = torch.arange(len(sizes), device=nodes.device).repeat_interleave(sizes) * count
        hub = virtual[own[:, None] + torch.arange(count, device=nodes.device)].flatten()
        node = nodes.repeat_interleave(count)
        parts = [near, far, torch.stack([node, hub]), torch.stack([hub, node])]
        kinds = [torch.full((part.shape[1],), kind) for kind, part in enumerate(parts)]
        total = len(virtual) + len(nodes)
        return Edges(torch.cat(parts, dim=1), total, total), torch.cat(kinds).to(nodes.device)

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
    position: Position = "random_walk",
    position_size: int = 20,
    width: int = 64,
    depth: int = 5,
    heads: int = 4,
    degree: int = 4,
    virtual: int = 1,
    seed: int = 0,
    pool: Pooling = "sum",
    dropout: float = 0.0,
    attention_dropout: float = 0.1,
) -> Exphormer:
    """Called ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``.

    Attention costs E + ``degree`` · N + 2 · ``virtual`` · N in place of N². The expander of a graph
    is drawn for the numbers of its nodes, by ``seed``: nodes in another order have another one.
    """
    return Exphormer(
        in_width,
        out_width,
        edge_width=edge_width,
        position=position,
        position_size=position_size,
        width=width,
        depth=depth,
        heads=heads,
        degree=degree,
        virtual=virtual,
        seed=seed,
        pool=pool,
        dropout=dropout,
        attention_dropout=attention_dropout,
    )
