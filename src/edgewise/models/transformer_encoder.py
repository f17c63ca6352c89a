"""Transformer encoder on any graph.

Formula: x = norm(x + attention(x)); x = norm(x + W₂ σ(W₁ x)); or pre-norm
Graph: complete by default; any pattern, or a graph at the call
Score: Dot (scaled), full projections; or bilinear, tanh MLP, concatenation
Normalisation: softmax or entmax (α fixed or learned); layer norm after or before each sublayer
Update: residual connections around attention and around the feed-forward network
Paper: Vaswani et al., Attention is all you need, 2017
"""

from __future__ import annotations

from torch import nn

from edgewise.arguments import checked
from edgewise.graphs import Pattern, complete
from edgewise.layers import TransformerLayer, TransformerStack
from edgewise.layers.transformer import Norm, Order, Projections, make_norm


@checked(depth=0)
def transformer_encoder(
    width: int,
    *,
    depth: int = 4,
    heads: int = 4,
    ffn_dim: int = 128,
    act: str = "relu",
    score: str = "dot",
    normaliser: str = "softmax",
    projections: Projections = "full",
    order: Order = "post",
    norm: Norm = "layer",
    dropout: float = 0.0,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> TransformerStack:
    """Build a Transformer encoder.

    Called as ``model(x [..., N, width], graph=None)``. A pre-norm stack ends with a norm.

    Args:
        width: hidden size.
        depth: number of layers.
        heads: number of attention heads per layer.
        ffn_dim: hidden size of the feed-forward networks.
        act: name of the activation function of the feed-forward networks.
        score: attention score: "dot", "bilinear", "tanh" or "concatenation".
        normaliser: normaliser of the scores, such as "softmax"; "learned" is entmax with learned α.
        projections: "full" projects all features for each head; "split" only the head's own slice.
        order: position of the norms: "post" after each sublayer, "pre" before it.
        norm: kind of norm: "layer", "batch" or "rms", or a function of the hidden size.
        dropout: dropout probability.
        graph: default attention graph; a call can give another.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.transformer_encoder(64)
        >>> model(torch.randn(2, 10, 64), graphs.window(2)).shape
        torch.Size([2, 10, 64])
    """
    layers = [
        TransformerLayer(
            width,
            heads,
            ffn_dim,
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
