"""Transformer encoder on any graph.

Formula: x = norm(x + attention(x)); x = norm(x + W₂ σ(W₁ x)); or pre-norm
Graph: complete by default, or any pattern or graph passed in the call
Score: ``Dot`` (scaled; each head projects all features), bilinear, tanh MLP or concatenation
Encoding: none by default, or a text position encoding chosen by name
Normalisation: softmax or α-entmax; layer norm after (default) or before each sublayer
Update: residual connections around attention and around the feed-forward network
Paper: Vaswani et al., Attention is all you need, 2017
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from edgewise.attention.biases import add_terms
from edgewise.encodings import TextPositions, text_positions
from edgewise.graphs import Pattern, check_graph, complete
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import TransformerLayer, TransformerStack
from edgewise.layers.transformer import Norm, Order, Projections, make_norm
from edgewise.models.arguments import model_function


@model_function(depth=0)
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
    max_length: int = 512,
    positions: str = "none",
    dropout: float = 0.0,
    graph: Pattern = complete(),
) -> TransformerStack:
    """Build a Transformer encoder.

    Called as ``model(x [..., N, width], graph=None)``. With ``order="pre"``, a final norm follows
    the last layer.

    Args:
        max_length: max length of a sequence, for learned and binary positions only.
        graph: default attention graph; a call can pass another graph.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.transformer_encoder(64)
        >>> model(torch.randn(2, 10, 64), graphs.window(2)).shape
        torch.Size([2, 10, 64])
    """
    encodings = text_positions(positions, width=width, heads=heads, max_length=max_length)
    layers = [
        TransformerLayer(
            width,
            heads,
            ffn_dim,
            act=act,
            score=score,
            normaliser=normaliser,
            projections=projections,
            rotary=encodings.rotary,
            order=order,
            norm=norm,
            dropout=dropout,
        )
        for _ in range(depth)
    ]
    last_norm = make_norm(norm, width) if order == "pre" else nn.Identity()
    return (
        TransformerStack(layers, last_norm, graph)
        if positions == "none"
        else PositionedStack(layers, last_norm, graph, encodings)
    )


class PositionedStack(TransformerStack):
    """Stack of Transformer layers with position encodings."""

    def __init__(
        self,
        layers: Sequence[nn.Module],
        norm: nn.Module,
        graph: Pattern,
        encodings: TextPositions,
    ) -> None:
        super().__init__(layers, norm, graph)
        self.added, self.relative = encodings.added, encodings.relative

    def forward(self, x: Tensor, graph: Pattern | None = None, **terms: Any) -> Tensor:
        """Return features ``[..., N, width]``."""
        graph = self.graph if graph is None else check_graph(graph)
        if self.added is not None:
            x = self.added(x, terms.get("positions"))
        if self.relative is not None:
            graph = bind_to_nodes(graph, x)
            edge_terms = self.relative(graph)
            bias = add_terms(edge_terms.get("bias"), terms.get("bias"))
            terms = {**terms, **edge_terms, "bias": bias}
        return super().forward(x, graph, **terms)
