"""Heterogeneous graph Transformer (HGT), for graphs with several types of nodes and edges.

Formula: h_i' = g A_t gelu(Σ_j softmax_j(p_r q_i·W_r k_j / √D) M_r v_j) + (1 - g) h_i, g = σ(s_t)
Graph: the input graph, a typed graph if there are several relations or node types
Score: ``Dot`` of the query and a key that is mapped by relation, times a learned factor p_r
Normalisation: softmax over the neighbourhood, over all relations together
Update: a gate g by node type mixes the result with the input
Paper: Hu et al., Heterogeneous graph transformer, 2020

The maps to query, key and value and the map A of the result have a matrix for each node type t. The
relative temporal encoding of the paper is left out.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise._utils.arguments import check_divides
from edgewise.attention.attend import attend
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import (
    Dropout,
    GraphLayer,
    GraphSequential,
    TypedInput,
    TypedLinear,
    attend_relations,
    typed_graph,
)
from edgewise.layers.typed import check_unbatched, glorot_
from edgewise.models.arguments import model_function


class HGTLayer(GraphLayer):
    """Layer of the heterogeneous graph Transformer, from x ``[N, width]`` to the same shape."""

    reach = 1

    def __init__(
        self, width: int, heads: int, relations: int, node_types: int, dropout: float
    ) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.heads, self.relations, self.node_types = heads, relations, node_types
        head_width = width // heads
        self.query = TypedLinear(node_types, width, width)
        self.key = TypedLinear(node_types, width, width)
        self.value = TypedLinear(node_types, width, width)
        maps = relations, heads, head_width, head_width
        self.key_map, self.value_map = (
            nn.Parameter(torch.empty(maps)),
            nn.Parameter(torch.empty(maps)),
        )
        self.priority = nn.Parameter(torch.ones(relations, heads))
        self.output = TypedLinear(node_types, width, width)
        self.skip = nn.Parameter(torch.ones(node_types))
        self.dropout = nn.Dropout(dropout)
        for weight in (self.key_map, self.value_map):
            glorot_(weight)

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        """Return features ``[N, width]``; one relation and node type may have a batch."""
        graph = bind_to_nodes(graph, x)
        query, key, value = (
            linear(x, graph).unflatten(-1, (self.heads, -1))
            for linear in (self.query, self.key, self.value)
        )
        typed = None
        if self.relations > 1 or self.node_types > 1:
            typed = typed_graph(graph, relations=self.relations, types=self.node_types)
        if typed is None or self.relations == 1:
            key, value = (
                torch.einsum("...nhd,hde->...nhe", rows, weight[0])
                for rows, weight in ((key, self.key_map), (value, self.value_map))
            )
            out = attend(query * self.priority[0, :, None], key, value, graph)
        else:
            check_unbatched(x)
            out = attend_relations(
                query,
                key,
                value,
                typed,
                key_weight=self.key_map,
                value_weight=self.value_map,
                priority=self.priority,
            )
        gate = self.skip.sigmoid()[0 if typed is None else typed.node_type, None]
        update = self.dropout(self.output(F.gelu(out.flatten(-2)), graph))
        mixed: Tensor = gate * update + (1 - gate) * x
        return mixed


@model_function()
def hgt(
    in_width: int,
    out_width: int,
    *,
    relations: int = 1,
    node_types: int = 1,
    width: int = 64,
    depth: int = 2,
    heads: int = 8,
    dropout: float = 0.0,
) -> GraphSequential:
    """Build a heterogeneous graph Transformer.

    Called as ``model(x [N, in_width], graph)`` with a graph of :func:`edgewise.graphs.typed`. A
    node's output depends on the nodes up to ``depth`` steps away and on no others. For node types
    with different features, pass ``x = graph.pack(features, separate=True)``.

    Args:
        relations: number of relations of the graph.
        node_types: number of node types of the graph; with 1 of both, any graph will do.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> shares = {("user", "shares", "post"): torch.tensor([[0, 1, 1], [0, 0, 2]])}
        >>> graph = graphs.typed(shares, {"user": 2, "post": 3}).with_reverse()
        >>> model = models.hgt(16, 4, relations=len(graph.relations), node_types=2)
        >>> model(torch.randn(5, 16), graph).shape
        torch.Size([5, 4])
    """
    layers = [HGTLayer(width, heads, relations, node_types, dropout) for _ in range(depth)]
    head = nn.Linear(width, out_width)
    return GraphSequential(TypedInput(in_width, width, node_types), Dropout(dropout), *layers, head)
