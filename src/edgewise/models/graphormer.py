"""Graphormer: attention over all pairs, biased by the length and the edges of a shortest path.

Formula: s_ij = q_i·k_j / √D + b_{φ(i,j)} + c_ij; φ: shortest-path distance; c_ij: mean of w_n·e_n
    over the edges n of a shortest path, with features e_n and learned weights w_n
Graph: the complete graph of all nodes of a graph and one virtual node
Score: ``Dot`` (scaled dot product) plus biases
Encoding: the biases b and c of the scores; embeddings of in-degree and out-degree, added to x
Normalisation: softmax; layer norm before each sublayer
Update: residuals around attention and the feed-forward network; the virtual node gives the output
Paper: Ying et al., Do Transformers really perform bad for graph representation?, 2021
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.attention.biases import TableBias
from edgewise.encodings import Centrality, PathEdges, ShortestPath
from edgewise.encodings.code import check_code
from edgewise.encodings.distances import path_classes
from edgewise.encodings.members import member_sizes
from edgewise.encodings.virtual_nodes import with_virtual_nodes
from edgewise.graphs import Graph, Pattern
from edgewise.layers import (
    GraphLayer,
    Linear,
    Membership,
    TransformerLayer,
    check_edge_attr,
    outputs_of_graphs,
    packed_graph,
)
from edgewise.models.arguments import model_factory


class Graphormer(GraphLayer):
    """Graphormer for graph-level outputs.

    Called as ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``. The defaults
    are those of the paper's Graphormer-slim, which has 0.5 million parameters.

    Args:
        max_distance: largest shortest-path distance with its own bias; larger distances share one.
        max_path_length: max number of edges of a shortest path that enter the bias; the edges
            nearest to the target are used.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.graphormer(16, 1, depth=2)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 1])
    """

    reads_edge_attr = True

    def __init__(
        self,
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
        encodings: dict[str, nn.Module] = {"distances": self.distance}
        return encodings if self.path is None else encodings | {"paths": self.path}

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
        """Return outputs ``[B, out_width]``; without edge features, the bias c is omitted.

        ``distances`` and ``paths`` are the codes of ``model.distance`` and ``model.path``, if
        computed before.
        """
        graph = packed_graph(x, graph, batch)
        nodes = self.embed(x)
        check_edge_attr(edge_attr, graph, self.edge_width, like=x)
        x = self.centrality(nodes, self.centrality.code(graph))
        virtual, real, pairs, _ = graph.derived(with_virtual_nodes)
        states = x.new_zeros(len(virtual) + len(real), x.shape[-1])
        states = states.index_copy(0, virtual, self.special.expand(len(virtual), -1))
        states = states.index_copy(0, real, x)

        bias = self.bias(graph, edge_attr, distances, paths)
        for layer in self.layers:
            states = layer(states, pairs, bias=bias)
        out: Tensor = self.head(self.norm(states[virtual]))
        return outputs_of_graphs(out, member_sizes(graph), batch)

    def bias(
        self,
        graph: Graph,
        edge_attr: Tensor | None = None,
        distances: Tensor | None = None,
        paths: Tensor | None = None,
    ) -> TableBias:
        """Return the attention bias b + c for all pairs of real and virtual nodes.

        Pairs with the same distance and features along the path share a row of a table.
        """
        nodes = graph.derived(with_virtual_nodes)
        distances = self.distance.code(graph) if distances is None else distances
        count = len(nodes.real_pairs)
        check_code(distances, count, argument="distances")
        classes = distances
        table: Tensor = self.distance.table
        if self.path is not None and edge_attr is not None:
            paths = self.path.code(graph) if paths is None else paths
            check_code(paths, count, self.path.max_path_length, argument="paths")
            classes, pair = path_classes(distances, paths, edge_attr)
            table = table[distances[pair].long()] + self.path(paths[pair], edge_attr).to(table)
        table = torch.cat([table, self.special_bias])
        return TableBias(nodes.classes(classes, len(table) - 1), table)


graphormer = model_factory(Graphormer, depth=0, edge_width=0)
