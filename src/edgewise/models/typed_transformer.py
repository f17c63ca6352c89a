r"""Typed graph Transformer: Transformer layers in which keys and values depend on the relation.

Formula: o_i = Σ_j softmax_j(q_i·(k_j + a_r) / √D + b_r) (v_j + c_r), for an edge of relation r
Graph: the input graph, a typed graph if there are several relations or node types
Score: ``Dot`` of the query and a key to which a vector of the relation is added, and a bias
Normalisation: softmax over the neighbourhood, over all relations together; layer norm before each
    sublayer
Update: residual connections around attention and feed-forward network
Paper: Vaswani et al., Attention is all you need, 2017; Shaw et al., Self-attention with relative
    position representations, 2018 (vectors a and c); the relation takes the place of the position

Unlike HGT, relations and node types have vectors instead of matrices, so that the number of
parameters grows by 2 × width for each relation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_divides
from edgewise.attention.attend import attend
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import (
    AttentionBlock,
    Dropout,
    FeedForward,
    GraphLayer,
    GraphSequential,
    JointLinear,
    TypedInput,
    attend_relation_vectors,
    typed_graph,
)
from edgewise.layers.transformer import unbind_qkv
from edgewise.layers.typed import check_unbatched
from edgewise.models.arguments import model_function


class TypedAttention(GraphLayer):
    """Multi-head attention with a key vector, a value vector and a bias for each relation."""

    reach = 1

    def __init__(self, width: int, heads: int, relations: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.heads, self.relations, self.dropout = heads, relations, dropout
        self.qkv = JointLinear(width, (width, width, width))
        self.key_vector, self.value_vector = (
            nn.Parameter(torch.empty(relations, heads, width // heads)) for _ in range(2)
        )
        # A bias that all edges have does not change the softmax.
        self.bias = nn.Parameter(torch.zeros(relations, heads)) if relations > 1 else None
        for vector in (self.key_vector, self.value_vector):
            nn.init.normal_(vector, std=0.1)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        """Return features of the shape of x ``[N, width]``; one relation may have a batch."""
        graph = bind_to_nodes(graph, x)
        query, key, value = unbind_qkv(self.qkv(x), self.heads)
        dropout = self.dropout if self.training else 0.0
        if self.bias is None:
            key, value = key + self.key_vector[0], value + self.value_vector[0]
            out = attend(query, key, value, graph, dropout=dropout)
        else:
            check_unbatched(x)
            out = attend_relation_vectors(
                query,
                key,
                value,
                typed_graph(graph, relations=self.relations),
                key_vector=self.key_vector,
                value_vector=self.value_vector,
                bias=self.bias,
                dropout=dropout,
            )
        result: Tensor = self.output(out.flatten(-2))
        return result


@model_function()
def typed_transformer(
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
    """Build a Transformer whose nodes attend to their neighbours over all relations.

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
        >>> model = models.typed_transformer(16, 4, relations=len(graph.relations), node_types=2)
        >>> model(torch.randn(5, 16), graph).shape
        torch.Size([5, 4])
    """
    layers = [
        AttentionBlock(
            TypedAttention(width, heads, relations, dropout=dropout),
            FeedForward(width, 2 * width, dropout=dropout),
            width,
            order="pre",
            dropout=dropout,
        )
        for _ in range(depth)
    ]
    return GraphSequential(
        TypedInput(in_width, width, node_types),
        Dropout(dropout),
        *layers,
        nn.LayerNorm(width),
        nn.Linear(width, out_width),
    )
