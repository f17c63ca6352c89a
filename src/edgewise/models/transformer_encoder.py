"""Transformer encoder, on any graph.

Formula: x = norm(x + attention(x)); x = norm(x + W₂ σ(W₁ x)), or with the norms first
Graph: complete by default; any pattern, or a graph at the call
Score: Dot (scaled), full projections; or bilinear, tanh MLP, concatenation
Normalisation: softmax, or entmax with α fixed or learned; layer norm, post or pre
Update: residual, then a feed-forward network with a residual of its own
Paper: Vaswani et al., Attention is all you need, 2017
"""

from __future__ import annotations

from torch import nn

from edgewise.arguments import checked
from edgewise.graphs import Pattern, complete
from edgewise.layers import TransformerLayer, TransformerStack
from edgewise.layers.attention import Projections
from edgewise.layers.transformer import Norm, Order, make_norm


@checked(depth=0)
def transformer_encoder(
    width: int,
    *,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 128,
    act: str = "relu",
    score: str = "dot",
    normaliser: str = "softmax",
    projections: Projections = "full",
    order: Order = "post",
    norm: Norm = "layer",
    dropout: float = 0.0,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> TransformerStack:
    """Stack ``depth`` Transformer layers; called ``model(x [..., N, width], graph=None)``.

    After the last of a pre-norm stack comes a norm.
    """
    layers = [
        TransformerLayer(
            width,
            heads,
            feed_forward,
            act=act,
            score=score,
            normaliser=normaliser,
            projections=projections,
            order=order,
            norm=norm,
            dropout=dropout,
        )
        for _ in range(depth)
    ]
    last_norm = make_norm(norm, width) if order == "pre" else nn.Identity()
    return TransformerStack(layers, last_norm, graph)
