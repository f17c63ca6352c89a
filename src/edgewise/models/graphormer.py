"""Graphormer: the complete graph, with where two nodes are to each other as a bias.

Formula: s_ij = q_i·k_j / √D + b_φ(i,j) + c_ij, φ the steps of the shortest path, c the mean of its
edges; h_i = x_i + z⁻_in(i) + z⁺_out(i) before the first layer
Graph: the complete graph of each molecule, and a special node that reads all and is read by all
Score: Dot (scaled)
Normalisation: softmax; layer norm before each sublayer
Update: residuals, feed-forward network; the special node is the output
Paper: Ying et al., Do Transformers really perform bad for graph representation?, 2021
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.arguments import checked
from edgewise.biases import EdgeTerm, TableBias
from edgewise.encodings import Centrality, PathEdges, ShortestPath
from edgewise.encodings.code import check_code
from edgewise.encodings.members import member_sizes
from edgewise.graphs import Graph, Intervals, Pattern, complete
from edgewise.graphs import batch as batch_of
from edgewise.layers import (
    GraphLayer,
    Linear,
    Membership,
    TransformerLayer,
    check_edge_attr,
    packed_graph,
)
from edgewise.ragged import ranges, runs_and_positions, starts


class Graphormer(GraphLayer):
    """See :func:`graphormer`."""

    reads_edge_attr = True

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int,
        width: int,
        depth: int,
        heads: int,
        max_distance: int,
        max_path_length: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.edge_width = edge_width
        self.embed = Linear(in_width, width)
        self.centrality = Centrality(width)
        self.special = nn.Parameter(torch.empty(width))
        nn.init.normal_(self.special, std=0.02)
        self.distance = ShortestPath(heads, max_distance)
        self.special_bias = nn.Parameter(0.02 * torch.randn(1, heads))
        self.path = PathEdges(edge_width, heads, max_path_length) if edge_width else None
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, width, act="gelu", order="pre", dropout=dropout)
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, out_width)

    def encodings(self) -> dict[str, nn.Module]:
        known: dict[str, nn.Module] = {"distances": self.distance}
        return known if self.path is None else known | {"paths": self.path}

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
        distances: Tensor | None = None,
        paths: Tensor | None = None,
    ) -> Tensor:
        """``[B, out_width]`` from x ``[N, in_width]`` and edges ``[E, edge_width]``.

        Args:
            x: features of nodes.
            graph: whose distances and paths are the bias.
            edge_attr: features of its edges.
            batch: which nodes make up each of the B graphs; see :mod:`edgewise.models`.
            distances: what ``model.distance.code(graph)`` gives, where it was computed before.
            paths: the same of ``model.path``.

        """
        graph = packed_graph(x, graph, batch)
        check_edge_attr(edge_attr, graph, self.edge_width, self.embed.weight)
        sizes = member_sizes(graph)
        x = self.centrality(self.embed(x), self.centrality.code(graph))
        special, nodes = with_special_nodes(sizes)
        states = x.new_zeros(len(special) + len(nodes), x.shape[-1])
        states = states.index_copy(0, special, self.special.expand(len(special), -1))
        states = states.index_copy(0, nodes, x)

        pairs = batch_of(complete(), sizes + 1).to(x.device)
        bias = self.bias(graph, edge_attr, distances, paths)
        for layer in self.layers:
            states = layer(states, pairs, bias=bias)
        out: Tensor = self.head(self.norm(states[special]))
        if batch is None:
            return out.squeeze(0)
        return out[which_members(sizes, batch)] if isinstance(batch, Graph) else out

    def bias(
        self,
        graph: Graph,
        edge_attr: Tensor | None,
        distances: Tensor | None,
        paths: Tensor | None,
    ) -> EdgeTerm:
        """The sum b + c of every pair, with those of the special nodes, which stand first."""
        sizes = member_sizes(graph)
        distances = self.distance.code(graph) if distances is None else distances
        table = torch.cat([self.distance.table, self.special_bias])
        inner = inner_pairs(sizes)
        check_code(distances, len(inner), argument="distances")
        classes = torch.full((int((sizes + 1).square().sum()),), len(table) - 1)
        classes = classes.to(graph.device).index_copy(0, inner, distances.long())
        by_distance = TableBias(classes, table)
        if self.path is None or edge_attr is None:
            return by_distance
        paths = self.path.code(graph) if paths is None else paths
        check_code(paths, len(inner), self.path.max_path_length, argument="paths")
        of_edges = self.path(paths, edge_attr)
        return by_distance.expand().index_add(0, inner, of_edges.to(table))


def with_special_nodes(sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Where special nodes ``[G]`` and the others ``[N]`` are when one stands before each graph."""
    special = starts(sizes + 1)
    return special, ranges(special + 1, sizes)


def inner_pairs(sizes: Tensor) -> Tensor:
    """``[P]``, where the pairs of nodes are among all pairs once special nodes stand first."""
    side = sizes + 1
    graph, place = runs_and_positions(sizes)  # of each row
    first = starts(side.square())[graph] + (place + 1) * side[graph]
    return ranges(first + 1, sizes[graph])


def which_members(sizes: Tensor, batch: Graph) -> Tensor:
    """``[B]``, which of the graphs each output of the membership graph reads."""
    assert isinstance(batch, Intervals)
    known = 2 * starts(sizes) + (sizes > 0)  # an empty graph begins where the next one does
    wanted = 2 * batch.start + (batch.stop > batch.start)
    return torch.searchsorted(known, wanted.to(known.device))


@checked(depth=0, edge_width=0)
def graphormer(
    in_width: int,
    out_width: int,
    *,
    edge_width: int = 0,
    width: int = 80,
    depth: int = 12,
    heads: int = 8,
    max_distance: int = 20,
    max_path_length: int = 5,
    dropout: float = 0.1,
) -> Graphormer:
    """Called ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``.

    Distances beyond ``max_distance`` count as it, and the first ``max_path_length`` edges of a path count. The
    defaults are those of Graphormer-slim, 0.5 million parameters.
    """
    return Graphormer(
        in_width,
        out_width,
        edge_width=edge_width,
        width=width,
        depth=depth,
        heads=heads,
        max_distance=max_distance,
        max_path_length=max_path_length,
        dropout=dropout,
    )
