"""GATv2: graph attention whose ranking of the sources depends on the target.

Formula: h_i' = Σ_j softmax_j(a·leaky(W_q h_i + W_k h_j)) W_k h_j, in H heads
Graph: the input graph with self-loops
Score: ``Additive``: a·leaky(query + key), slope 0.2; in GAT all targets rank the sources equally
Normalisation: softmax over the neighbourhood
Update: concatenated heads and ELU; the last layer has one head
Paper: Brody et al., How attentive are graph attention networks?, 2022
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.attention.attend import attend
from edgewise.attention.scores import Additive
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import Dropout, GraphLayer, GraphSequential, Linear
from edgewise.models.arguments import model_function


class GATv2Layer(GraphLayer):
    """GATv2 layer: h_i' = Σ_j softmax_j(a·leaky(W_q h_i + W_k h_j)) W_k h_j for each head."""

    reach = 1

    def __init__(
        self, in_width: int, width: int, heads: int, *, dropout: float = 0.0, average: bool = False
    ) -> None:
        super().__init__()
        self.heads, self.dropout, self.average = heads, dropout, average
        self.query = Linear(in_width, heads * width)  # W_q
        self.key = Linear(in_width, heads * width)  # W_k
        self.score = nn.Parameter(torch.empty(heads, width))
        self.bias = nn.Parameter(torch.zeros(width if average else heads * width))
        for weight in (self.query.weight, self.key.weight, self.score):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        graph = bind_to_nodes(graph, x)
        query = self.query(x).unflatten(-1, (self.heads, -1))
        key = self.key(x).unflatten(-1, (self.heads, -1))
        graph = graph.without_self_loops().with_self_loops()  # Each node has exactly one self-loop.
        dropout = self.dropout if self.training else 0.0
        out = attend(query, key, key, graph, score=Additive(weight=self.score), dropout=dropout)
        return (out.mean(-2) if self.average else out.flatten(-2)) + self.bias


@model_function()
def gatv2(
    in_width: int, out_width: int, *, head_width: int = 8, heads: int = 8, dropout: float = 0.6
) -> GraphSequential:
    """Build a GATv2 network of two layers: concatenated heads and ELU, then a single head.

    Called as ``model(x [..., N, in_width], graph)``. A node's output depends on the nodes up to 2
    steps away and on no others.

    Args:
        head_width: hidden size of each head in the first layer.
        heads: number of attention heads in the first layer.
        dropout: dropout probability of the inputs and the attention weights.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.gatv2(16, 3)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """
    first = GATv2Layer(in_width, head_width, heads, dropout=dropout)
    last = GATv2Layer(heads * head_width, out_width, 1, dropout=dropout, average=True)
    return GraphSequential(Dropout(dropout), first, nn.ELU(), Dropout(dropout), last)
