"""Transformer encoder, on any graph.

Formula: x = norm(x + attention(x)); x = norm(x + W₂ σ(W₁ x)), or with the norms first
Graph: complete by default; any pattern, or a graph at the call
Score: Dot (scaled), full projections
Normalisation: softmax over the neighbourhood; layer norm, post or pre
Update: residual, then a feed-forward network with a residual of its own
Paper: Vaswani et al., Attention is all you need, 2017
"""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.graphs import Pattern, complete
from edgewise.layers import GraphLayer, TransformerLayer
from edgewise.layers.block import NORMS, Norm, Order


class TransformerEncoder(GraphLayer):
    """Transformer layers that share one graph; after the last of a pre-norm stack comes a norm."""

    def __init__(self, layers: list[TransformerLayer], norm: nn.Module, graph: Pattern) -> None:
        super().__init__()
        self.layers, self.norm, self.graph = nn.ModuleList(layers), norm, graph

    def forward(self, x: Tensor, graph: Pattern | None = None) -> Tensor:
        """``[..., N, width]`` from x of that shape, on ``graph`` or the one given at the start."""
        for layer in self.layers:
            x = layer(x, self.graph if graph is None else graph)
        out: Tensor = self.norm(x)
        return out


def transformer_encoder(
    width: int,
    *,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 128,
    act: str = "relu",
    order: Order = "post",
    norm: Norm = "layer",
    dropout: float = 0.0,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> TransformerEncoder:
    """Stack ``depth`` Transformer layers; called ``model(x [..., N, width], graph=None)``."""
    layer = (width, heads, feed_forward)
    layers = [
        TransformerLayer(*layer, act=act, order=order, norm=norm, dropout=dropout)
        for _ in range(depth)
    ]
    last = NORMS[norm](width) if order == "pre" else nn.Identity()
    return TransformerEncoder(layers, last, graph)
