"""Graph-BERT: attention among the few nodes that a node is most intimate with, and no links.

Formula: h_j = W x_j + PE(WL_j) + PE(rank of j) + PE(hops to j) for j in the list of i; in each
layer h ← layer(h) + W_r Σ_j a_ij x_j; the output is that of the mean over the list
Graph: a complete graph for each node, of itself and its 7 most intimate nodes; links are not read
Score: Dot (scaled)
Normalisation: softmax; layer norm after each sublayer
Update: residuals, feed-forward network, and the neighbours' raw features added to every layer
Paper: Zhang et al., Graph-BERT: only attention is needed for learning graph representations, 2020
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from edgewise.arguments import check_choice, checked
from edgewise.attention import aggregate
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
from edgewise.ragged import ranges, run_of_each

Raw = Literal["graph", "node", "none"]


class GraphBERT(GraphLayer):
    """See :func:`graph_bert`."""

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        num_neighbours: int,
        alpha: float,
        rounds: int,
        raw: Raw,
        width: int,
        depth: int,
        heads: int,
        dropout: float,
    ) -> None:
        super().__init__()
        check_choice("raw", raw, get_args(Raw))
        self.num_neighbours, self.alpha, self.rounds, self.raw = num_neighbours, alpha, rounds, raw
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
        """``[..., N, out_width]`` from x ``[..., N, in_width]``; see :mod:`edgewise.models`."""
        refuse_edge_attr(edge_attr)
        graph = packed_graph(x, graph, batch)
        near, lists, members, code = self.places(graph)
        x = self.input_dropout(x)
        states = self.embed(x).index_select(-2, near.nodes) + code.to(self.norm.weight)
        states = self.norm(states)
        raw = self.raw_features(x, graph)
        if raw is not None:
            raw = raw.index_select(-2, run_of_each(near.sizes, states.shape[-2]))
        for layer in self.layers:
            states = layer(states, lists)
            states = states if raw is None else states + raw
        fused = aggregate(states.unsqueeze(-2), members, reduce="mean").squeeze(-2)
        out: Tensor = self.head(fused)
        return out

    def raw_features(self, x: Tensor, graph: Graph) -> Tensor | None:
        """What every layer is given again: of the node's neighbours and itself, or of itself."""
        if self.residual is None:
            return None
        raw: Tensor = self.residual(x)
        if self.raw == "node":
            return raw
        loops = graph.with_self_loops()
        return aggregate(raw.unsqueeze(-2), loops, reduce="mean").squeeze(-2)

    def places(self, graph: Graph) -> tuple[Intimates, Graph, Graph, Tensor]:
        """The lists, the graph in which each is complete, that of membership, and all codes' sum.

        They follow from the graph alone, and are kept for as long as it is.
        """

        def make() -> tuple[Intimates, Graph, Graph, Tensor]:
            near = intimate_nodes(graph, self.num_neighbours, self.alpha)
            rank = ranges(torch.zeros_like(near.sizes), near.sizes)
            color = wl_colors(graph, self.rounds)[near.nodes]
            codes = [sinusoidal_positions(p, width) for p in (color, rank, near.hops)]
            lists = batch_of(complete(), near.sizes).to(graph.device)
            members = membership(near.sizes).to(graph.device)
            return near, lists, members, torch.stack(codes).sum(0)

        width = self.norm.normalized_shape[0]
        return graph.cached(
            ("graph_bert", self.num_neighbours, self.alpha, self.rounds, width), make
        )


@checked(num_neighbours=0, rounds=0, depth=0)
def graph_bert(
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
) -> GraphBERT:
    """Called ``model(x [..., N, in_width], graph)``.

    ``num_neighbours`` nodes by intimacy, a walk that turns back with probability ``alpha``, are all
    that a node sees; ``rounds`` of Weisfeiler–Lehman colours say which part it has. ``raw`` says
    what is
    added to every layer: the mean of the neighbours' features and its own (the paper's
    "graph-raw"), its own, or nothing. What follows from the graph is computed once for each graph,
    in memory N².
    """
    return GraphBERT(
        in_width,
        out_width,
        num_neighbours=num_neighbours,
        alpha=alpha,
        rounds=rounds,
        raw=raw,
        width=width,
        depth=depth,
        heads=heads,
        dropout=dropout,
    )
