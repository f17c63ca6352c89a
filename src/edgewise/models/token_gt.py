"""Tokenized graph Transformer (TokenGT): nodes and edges are tokens of a plain Transformer.

Formula: tokens [W x_i; P_i; P_i] of nodes and [W' e_ij; P_j; P_i] of edges from j to i, each with a
    linear map and a vector of its kind; h = h + attention(h); h = h + FFN(h)
Graph: the complete graph of the graph token, the node tokens and the edge tokens of each graph
Score: ``Dot`` (scaled dot product)
Encoding: node identifiers P: entries of a node in the Laplacian eigenvectors; in training, the
    signs are sampled for each graph and eigenvector
Normalisation: softmax; layer norm before each sublayer
Update: residual connections around attention and FFN (GELU); the graph token gives the output
Paper: Kim et al., Pure Transformers are powerful graph learners, 2022
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.ragged import ranges, segment_index, starts
from edgewise.encodings.code import GraphEncoding, check_code
from edgewise.encodings.laplacian import laplacian_eigenvectors, random_signs
from edgewise.encodings.members import member_sizes
from edgewise.graphs import Graph, complete
from edgewise.graphs import batch as batch_of
from edgewise.layers import Membership, TransformerLayer, outputs_of_graphs
from edgewise.models.arguments import model_factory
from edgewise.models.graph_encoder import GraphEncoder


class NodeIdentifiers(GraphEncoding):
    """Append Laplacian eigenvectors to node features."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        self.settings = (k,)

    def code(self, graph: Graph) -> Tensor:
        """Return the eigenvectors ``[N, k]``; compute them once per data set."""
        return laplacian_eigenvectors(graph, self.k)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """Return features ``[N, width + k]``."""
        check_code(code, x.shape[-2], self.k)
        return torch.cat([x, code.to(x)], dim=-1)


class TokenGT(GraphEncoder):
    """Tokenized graph Transformer (TokenGT) for whole graphs.

    Called as ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``. Attention of
    a graph with n nodes and m edges has (1 + n + m)² pairs. Graphs must be undirected.

    Args:
        position_size: number of Laplacian eigenvectors in the node identifiers.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.token_gt(16, 1, depth=2)
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
        position_size: int = 16,
        width: int = 64,
        depth: int = 6,
        heads: int = 4,
        act: str = "gelu",
        dropout: float = 0.0,
    ) -> None:
        layers = (
            TransformerLayer(width, heads, 2 * width, act=act, order="pre", dropout=dropout)
            for _ in range(depth)
        )
        super().__init__(
            in_width,
            out_width,
            layers,
            edge_width=edge_width,
            position="none",
            position_size=position_size,
            width=width,
            pool="none",
            dropout=dropout,
        )
        self.position = NodeIdentifiers(position_size)
        self.embed_edges = nn.Linear(edge_width, width, bias=False) if edge_width else None
        self.identify = nn.Linear(2 * position_size, width, bias=False)
        self.kinds = nn.Parameter(0.02 * torch.randn(3, width))  # graph, node, edge
        self.norm = nn.LayerNorm(width)

    def transform(self, x: Tensor, graph: Graph, edge_attr: Tensor | None) -> Tensor:
        """Return states of graphs ``[G, width]``; edge features default to zeros."""
        x, identifiers = x.split([x.shape[-1] - self.position.k, self.position.k], dim=-1)
        if self.training:
            sizes = member_sizes(graph)
            signs = random_signs(identifiers, len(sizes), self.position.k)
            identifiers = identifiers * signs[segment_index(sizes, len(x))]
        nodes = x + self.identify(torch.cat([identifiers, identifiers], dim=-1)) + self.kinds[1]
        ends = graph.gather_source(identifiers), graph.gather_target(identifiers)
        edges = self.identify(torch.cat(ends, dim=-1)) + self.kinds[2]
        if self.embed_edges is not None and edge_attr is not None:
            edges = edges + self.embed_edges(edge_attr)
        graph_token, of_nodes, of_edges, pairs = graph.derived(_token_graph)
        h = nodes.new_zeros(pairs.num_targets, nodes.shape[-1])
        h = h.index_copy(0, graph_token, self.kinds[0].to(h).expand(len(graph_token), -1))
        h = h.index_copy(0, of_nodes, nodes).index_copy(0, of_edges, edges.to(h))
        for layer in self.layers:
            h = layer(h, pairs)
        out: Tensor = self.norm(h[graph_token])
        return out

    def readout(self, states: Tensor, graph: Graph, batch: Membership) -> Tensor:
        return outputs_of_graphs(states, member_sizes(graph), batch)


def _token_graph(graph: Graph) -> tuple[Tensor, Tensor, Tensor, Graph]:
    """Return the positions of graph tokens ``[G]``, nodes ``[N]`` and edges ``[E]`` in the sequence
    of all tokens, and the complete graph of the tokens of each graph.
    """
    nodes = member_sizes(graph)
    owner = segment_index(nodes, graph.num_targets)[graph.target]
    edges = owner.bincount(minlength=len(nodes))
    sizes = 1 + nodes + edges
    first = starts(sizes)
    of_edges = torch.empty_like(owner)
    of_edges[owner.argsort(stable=True)] = ranges(first + 1 + nodes, edges)
    pairs = batch_of(complete(), sizes).to(graph.device)
    return first, ranges(first + 1, nodes), of_edges, pairs


token_gt = model_factory(TokenGT, depth=0, edge_width=0)
