"""Multi-hop attention graph neural network.

Formula: Z⁰ = V h, Zᵏ⁺¹ = (1 - α) A Zᵏ + α Z⁰ with attention A; h = h + W Zᴷ; h = h + FFN(h)
Graph: the input graph with self-loops
Score: Additive with heads of width 1: leaky(a·tanh(W_q h_i) + b·tanh(W_k h_j))
Normalisation: softmax once, its weights diffused over K hops in O(K·E); layer norm first
Update: residual, then a feed-forward network with a residual of its own
Paper: Wang et al., Multi-hop attention graph neural networks, 2021
"""

from __future__ import annotations

from torch import nn

from edgewise.layers import Block, Dropout, GraphSequential, Linear, MultiHopAttention
from edgewise.ranges import checked


@checked(hops=0)
def magna(
    in_width: int,
    out_width: int,
    *,
    hidden: int = 64,
    depth: int = 2,
    heads: int = 8,
    hops: int = 6,
    alpha: float = 0.1,
    dropout: float = 0.1,
) -> GraphSequential:
    """Stack ``depth`` pre-norm blocks; called ``model(x [..., N, in_width], graph)``.

    A node's output depends on the nodes up to ``depth * hops`` steps away and on no others.
    """
    layers: list[nn.Module] = [Linear(in_width, hidden)]
    for _ in range(depth):
        attention = MultiHopAttention(hidden, heads, hops=hops, alpha=alpha, dropout=dropout)
        layers.append(Block(attention, hidden, 4 * hidden, order="pre", dropout=dropout))
    return GraphSequential(Dropout(dropout), *layers, nn.Linear(hidden, out_width))
