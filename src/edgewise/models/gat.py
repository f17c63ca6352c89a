"""Graph attention network (GAT).

Formula: h_i' = Σ_j softmax_j(leaky(a·W h_i + b·W h_j)) W h_j, in H heads
Graph: the input graph with self-loops
Score: ``Additive``: leaky ReLU (slope 0.2) of a scalar of the target plus a scalar of the source
Normalisation: softmax over the neighbourhood
Update: concatenated heads and ELU; the last layer averages its heads
Paper: Veličković et al., Graph attention networks, 2018
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.attention.attend import attend
from edgewise.attention.scores import Additive
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import Dropout, GraphLayer, GraphSequential, Linear
from edgewise.models.arguments import model_function


class GATLayer(GraphLayer):
    """GAT layer with dropout of the attention weights and, as in the authors' code but not the
    paper, of the values W h_j (two points of accuracy on CiteSeer).
    """

    reach = 1

    def __init__(
        self, in_width: int, width: int, heads: int, *, dropout: float = 0.0, average: bool = False
    ) -> None:
        super().__init__()
        self.heads, self.dropout, self.average = heads, dropout, average
        self.linear = Linear(in_width, heads * width, bias=False)
        self.att_dst = nn.Parameter(torch.empty(heads, width))  # a in the formula above
        self.att_src = nn.Parameter(torch.empty(heads, width))  # b in the formula above
        self.bias = nn.Parameter(torch.zeros(width if average else heads * width))
        for weight in (self.linear.weight, self.att_dst, self.att_src):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        graph = bind_to_nodes(graph, x)
        graph = graph.without_self_loops().with_self_loops()  # Each node has exactly one self-loop.
        value = self.linear(x).unflatten(-1, (self.heads, -1))
        query = (value * self.att_dst).sum(-1, keepdim=True)
        key = (value * self.att_src).sum(-1, keepdim=True)
        # The scores above use the values before dropout.
        value = F.dropout(value, self.dropout, self.training)
        dropout = self.dropout if self.training else 0.0
        out = attend(query, key, value, graph, score=Additive(), dropout=dropout)
        return (out.mean(-2) if self.average else out.flatten(-2)) + self.bias


@model_function()
def gat(
    in_width: int,
    out_width: int,
    *,
    head_width: int = 8,
    heads: int = 8,
    output_heads: int = 1,
    dropout: float = 0.6,
) -> GraphSequential:
    """Build a graph attention network of two layers.

    Called as ``model(x [..., N, in_width], graph)``. A node's output depends on the nodes up to 2
    steps away and on no others.

    Args:
        head_width: hidden size of each head in the first layer.
        heads: number of attention heads in the first layer.
        output_heads: number of attention heads in the last layer, which are averaged.
        dropout: dropout probability of the inputs, the attention weights and the values.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.gat(16, 3)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """
    first = GATLayer(in_width, head_width, heads, dropout=dropout)
    last = GATLayer(heads * head_width, out_width, output_heads, dropout=dropout, average=True)
    return GraphSequential(Dropout(dropout), first, nn.ELU(), Dropout(dropout), last)
