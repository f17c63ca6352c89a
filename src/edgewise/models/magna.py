"""Multi-hop attention graph neural network (MAGNA): attention weights are diffused over hops.

Formula: Z⁰ = V h, Zᵏ⁺¹ = (1 - α) A Zᵏ + α Z⁰, attention weights A; h = h + W Zᴷ; h = h + FFN(h)
Graph: the input graph with self-loops
Score: ``Additive``: leaky(a·tanh(W_q h_i) + b·tanh(W_k h_j))
Normalisation: softmax over the neighbourhood, once for all K hops; layer norm before each sublayer
Update: residual connections around attention and around the feed-forward network
Paper: Wang et al., Multi-hop attention graph neural networks, 2021
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.attention.attend import aggregate
from edgewise.attention.scores import Additive
from edgewise.attention.steps import attention_weights
from edgewise.graphs import Graph, Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import (
    AttentionBlock,
    Dropout,
    FeedForward,
    GraphLayer,
    GraphSequential,
    Linear,
    symmetric_weight,
)
from edgewise.models.arguments import model_function


def diffuse(value: Tensor, graph: Graph, weight: Tensor, *, hops: int, alpha: float) -> Tensor:
    r"""Diffuse values by personalised PageRank, in O(hops · E) time (MAGNA, equation 5).

    :math:`Z^{k+1} = (1 - \alpha) A Z^k + \alpha Z^0`, from values ``[..., N, H, D]`` and weights A
    ``[..., E, H]``, converges to :math:`\alpha (I - (1 - \alpha) A)^{-1} Z^0`.
    """
    out = value
    for _ in range(hops):
        out = (1 - alpha) * aggregate(out, graph, weight=weight) + alpha * value
    return out


class OutputPropagation(GraphLayer):
    """Propagate node outputs by PageRank with GCN's weights and restart probability 0.1 (Gasteiger
    et al., Predict then propagate: graph neural networks meet personalized PageRank, 2019).
    """

    def __init__(self, hops: int) -> None:
        super().__init__()
        self.hops = self.reach = hops

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        """Return outputs ``[..., N, out_width]`` from x of the same shape."""
        if not self.hops:
            return x
        loops = bind_to_nodes(graph, x).without_self_loops().with_self_loops()
        weight = symmetric_weight(loops).to(x)[:, None]
        return diffuse(x.unsqueeze(-2), loops, weight, hops=self.hops, alpha=0.1).squeeze(-2)


class MultiHopAttention(GraphLayer):
    """Multi-hop attention, whose weights are computed once for all hops (Wang et al., 2021), with
    the score leaky(a·tanh(W_q h_i) + b·tanh(W_k h_j)). One hop with ``alpha=0`` is GAT.
    """

    def __init__(
        self, width: int, heads: int, *, hops: int, alpha: float, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads, self.hops, self.alpha, self.dropout = heads, hops, alpha, dropout
        self.reach = hops
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.att_dst = nn.Parameter(torch.empty(heads, width // heads))  # a in the score above
        self.att_src = nn.Parameter(torch.empty(heads, width // heads))  # b in the score above
        self.output = nn.Linear(width, width, bias=False)
        for weight in self.parameters():
            nn.init.xavier_normal_(weight)

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        """Return features ``[..., N, width]`` from x of the same shape."""
        graph = bind_to_nodes(graph, x)
        graph = graph.without_self_loops().with_self_loops()  # Each node has exactly one self-loop.
        query = self.query(x).unflatten(-1, (self.heads, -1)).tanh()
        key = self.key(x).unflatten(-1, (self.heads, -1)).tanh()
        value = self.value(x).unflatten(-1, (self.heads, -1))
        query = (query * self.att_dst).sum(-1, keepdim=True)
        key = (key * self.att_src).sum(-1, keepdim=True)
        weight = attention_weights(query, key, graph, score=Additive())
        weight = F.dropout(weight, self.dropout, self.training)
        out = diffuse(value, graph, weight, hops=self.hops, alpha=self.alpha)
        projected: Tensor = self.output(out.flatten(-2))
        return projected


@model_function(hops=0, output_hops=0)
def magna(
    in_width: int,
    out_width: int,
    *,
    width: int = 64,
    depth: int = 2,
    heads: int = 8,
    hops: int = 6,
    alpha: float = 0.1,
    dropout: float = 0.1,
    output_hops: int = 0,
) -> GraphSequential:
    """Build a multi-hop attention network.

    Called as ``model(x [..., N, in_width], graph)``. A node's output depends on the nodes up to
    ``depth * hops + output_hops`` steps away and on no others.

    Args:
        hops: number of diffusion steps per layer (0 = none).
        alpha: restart probability of the diffusion.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.magna(16, 3)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """
    layers: list[nn.Module] = [Linear(in_width, width)]
    for _ in range(depth):
        attention = MultiHopAttention(width, heads, hops=hops, alpha=alpha, dropout=dropout)
        network = FeedForward(width, 4 * width, dropout=dropout)
        layers.append(AttentionBlock(attention, network, width, order="pre", dropout=dropout))
    head = nn.Linear(width, out_width), OutputPropagation(output_hops)
    return GraphSequential(Dropout(dropout), *layers, *head)
