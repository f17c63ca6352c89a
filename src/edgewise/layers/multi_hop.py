"""Attention over several hops by diffusion."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.attention import aggregate
from edgewise.edge_steps import attention_weights
from edgewise.graphs import Graph, Pattern
from edgewise.layers.sequential import GraphLayer
from edgewise.scores import Additive


def diffuse(value: Tensor, graph: Graph, weight: Tensor, *, hops: int, alpha: float) -> Tensor:
    r"""Personalised PageRank along one set of weights, in O(hops · E) (MAGNA, equation 5).

    :math:`Z^{k+1} = (1 - \alpha) A Z^k + \alpha Z^0`, which tends to
    :math:`\alpha (I - (1 - \alpha) A)^{-1} Z^0`; an eigenvalue λ of A becomes
    α / (1 - (1 - α) λ).

    Args:
        value: Z⁰, ``[..., N, H, D]``.
        graph: the edges, in the order of ``weight``.
        weight: the entries of A, ``[..., E, H]``.
        hops: K, how many steps; none gives ``value``.
        alpha: how much of every step is Z⁰; 1 gives ``value``.

    """
    out = value
    for _ in range(hops):
        out = (1 - alpha) * aggregate(out, graph, weight=weight) + alpha * value
    return out


class MultiHopAttention(GraphLayer):
    """Attention whose weights are computed once and diffused (Wang et al., 2021).

    The score is leaky(a·tanh(W_q h_i) + b·tanh(W_k h_j)); every node reads itself, too. One hop
    with alpha 0 is attention as in GAT.

    Args:
        width: of the features and of the output, a multiple of ``heads``.
        heads: H.
        hops, alpha: see :func:`diffuse`.
        dropout: on the attention weights, in training.
    """

    def __init__(
        self, width: int, heads: int, *, hops: int, alpha: float, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads, self.hops, self.alpha, self.dropout = heads, hops, alpha, dropout
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.target, self.source = (nn.Parameter(torch.empty(heads, width // heads)) for _ in "ab")
        self.output = nn.Linear(width, width, bias=False)
        for weight in self.parameters():
            nn.init.xavier_normal_(weight)

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        """``[..., N, width]`` from x of that shape."""
        graph = graph.bind(x.shape[-2]).to(x.device).without_self_loops().with_self_loops()
        query, key, value = (
            f(x).unflatten(-1, (self.heads, -1)) for f in (self.query, self.key, self.value)
        )
        query = (query.tanh() * self.target).sum(-1, keepdim=True)
        key = (key.tanh() * self.source).sum(-1, keepdim=True)
        weight = attention_weights(query, key, graph, score=Additive())
        weight = F.dropout(weight, self.dropout, self.training)
        out = diffuse(value, graph, weight, hops=self.hops, alpha=self.alpha)
        projected: Tensor = self.output(out.flatten(-2))
        return projected
