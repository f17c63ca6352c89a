"""Graph-BERT: attention within neighbourhoods chosen by PageRank, without message passing.

Formula: h_j = norm(W x_j + PE(WL_j) + PE(rank_j) + PE(hops_j));
    then h ← layer(h) + W_r Σ_j a_ij x_j
Graph: for each node, the complete graph of the node and the 7 nodes of highest PageRank from it
Score: ``Dot`` (scaled dot product)
Normalisation: softmax; layer norm after each sublayer
Update: residual connections, FFN; projected input features are added after every layer
Paper: Zhang et al., Graph-BERT: only attention is needed for learning graph representations, 2020

A node j in the neighbourhood of i has three sinusoidal codes PE, added up, of its Weisfeiler–Lehman
colour, its rank by intimacy (personalised PageRank from i) and its distance to i. The sum of
a_ij x_j is the mean of x over i and its neighbours in the input graph. The output for i is a linear
map of the mean state of its neighbourhood.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice
from edgewise._utils.ragged import ranges, segment_index
from edgewise.attention.attend import aggregate
from edgewise.encodings import Intimates, intimate_nodes, sinusoidal_positions, wl_colors
from edgewise.graphs import Graph, Pattern, complete, membership
from edgewise.graphs import batch as batch_of
from edgewise.layers import (
    Dropout,
    GraphLayer,
    Linear,
    Membership,
    TransformerLayer,
    packed_graph,
    refuse_edge_attr,
)
from edgewise.models.arguments import model_factory
from edgewise.models.magna import OutputPropagation

Raw = Literal["graph", "node", "none"]


class GraphBERT(GraphLayer):
    """Graph-BERT: a Transformer over the neighbourhood of each node, for node-level outputs.

    The neighbourhood of a node is the node and the nodes of highest personalised PageRank. Called
    as ``model(x [..., N, in_width], graph)``. Neighbourhoods and positional codes are computed once
    per graph, in O(N²) memory.

    Args:
        num_neighbours: number of other nodes in each neighbourhood.
        alpha: restart probability of the personalised PageRank.
        rounds: number of Weisfeiler–Lehman rounds for the node colours.
        raw: projected input features added after every layer: "node" (of the node), "graph" (mean
            over the node and its neighbours) or "none".

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.graph_bert(16, 3)
        >>> ring = torch.stack([torch.arange(10), torch.arange(10).roll(1)])
        >>> model(torch.randn(10, 16), graphs.edges(ring, 10)).shape
        torch.Size([10, 3])
    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        num_neighbours: int = 7,
        alpha: float = 0.15,
        rounds: int = 2,
        raw: Raw = "graph",
        width: int = 32,
        depth: int = 2,
        heads: int = 2,
        dropout: float = 0.5,
        output_hops: int = 0,
    ) -> None:
        super().__init__()
        check_choice("raw", raw, get_args(Raw))
        self.num_neighbours, self.alpha, self.rounds, self.raw = num_neighbours, alpha, rounds, raw
        self.propagate = OutputPropagation(output_hops)
        self.input_dropout = Dropout(dropout)
        self.embed = Linear(in_width, width)
        self.norm = nn.LayerNorm(width)
        self.residual = None if raw == "none" else Linear(in_width, width)
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, width, act="gelu", dropout=dropout) for _ in range(depth)
        )
        self.head = nn.Linear(width, out_width)

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
    ) -> Tensor:
        """Return outputs ``[..., N, out_width]`` of x ``[..., N, in_width]``."""
        refuse_edge_attr(edge_attr)
        graph = packed_graph(x, graph, batch)
        intimates, cliques, members, code = graph.derived(
            _neighbourhoods, self.num_neighbours, self.alpha, self.rounds, self.norm.weight.numel()
        )
        x = self.input_dropout(x)
        states = self.embed(x).index_select(-2, intimates.nodes) + code.to(x.device, x.dtype)
        states = self.norm(states)
        residual = self.raw_residual(x, graph)
        if residual is not None:
            node = segment_index(intimates.sizes, states.shape[-2])
            residual = residual.index_select(-2, node)
        for layer in self.layers:
            states = layer(states, cliques)
            states = states if residual is None else states + residual
        fused = aggregate(states.unsqueeze(-2), members, reduce="mean").squeeze(-2)
        out: Tensor = self.propagate(self.head(fused), graph)
        return out

    def raw_residual(self, x: Tensor, graph: Graph) -> Tensor | None:
        """Return the projected input features that are added after every layer, or None."""
        if self.residual is None:
            return None
        raw: Tensor = self.residual(x)
        if self.raw == "node":
            return raw
        loops = graph.with_self_loops()
        return aggregate(raw.unsqueeze(-2), loops, reduce="mean").squeeze(-2)


def _neighbourhoods(
    graph: Graph, num_neighbours: int, alpha: float, rounds: int, width: int
) -> tuple[Intimates, Graph, Graph, Tensor]:
    """Return the neighbourhoods of all nodes of a graph.

    The result has the nodes of each neighbourhood, the complete graphs on them, the edges to the
    centres, and the sum of the three positional codes of each node.
    """
    intimates = intimate_nodes(graph, num_neighbours, alpha)
    rank = ranges(torch.zeros_like(intimates.sizes), intimates.sizes)
    color = wl_colors(graph, rounds)[intimates.nodes]
    codes = [sinusoidal_positions(p, width) for p in (color, rank, intimates.hops)]
    cliques = batch_of(complete(), intimates.sizes).to(graph.device)
    members = membership(intimates.sizes).to(graph.device)
    return intimates, cliques, members, torch.stack(codes).sum(0)


graph_bert = model_factory(GraphBERT, num_neighbours=0, rounds=0, depth=0, output_hops=0)
