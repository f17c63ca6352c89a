"""Transformer encoder, on any graph.

Formula: x = norm(x + attention(x)); x = norm(x + W₂ σ(W₁ x)), or with the norms first
Graph: complete by default; any pattern, or a graph at the call
Score: Dot (scaled), full projections; or bilinear, tanh MLP, concatenation
Normalisation: softmax over the neighbourhood; layer norm, post or pre
Update: residual, then a feed-forward network with a residual of its own
Paper: Vaswani et al., Attention is all you need, 2017
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn

from edgewise.graphs import Pattern, complete
from edgewise.layers import AttentionBlock, GraphLayer, TransformerLayer
from edgewise.layers.block import Norm, Order, make_norm
from edgewise.ranges import checked


class TransformerEncoder(GraphLayer):
    """Transformer layers that share one graph; after the last of a pre-norm stack comes a norm."""

    def __init__(self, layers: Sequence[AttentionBlock], norm: nn.Module, graph: Pattern) -> None:
        super().__init__()
        self.layers, self.norm, self.graph = nn.ModuleList(layers), norm, graph

    def forward(self, x: Tensor, graph: Pattern | None = None, **terms: Any) -> Tensor:
        """``[..., N, width]`` from x of that shape, on ``graph`` or the one given at the start."""
        for layer in self.layers:
            x = layer(x, self.graph if graph is None else graph, **terms)
        out: Tensor = self.norm(x)
        return out


@checked(depth=0)
def transformer_encoder(
    width: int,
    *,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 128,
    act: str = "relu",
    score: str = "dot",
    order: Order = "post",
    norm: Norm = "layer",
    dropout: float = 0.0,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> TransformerEncoder:
    """Stack ``depth`` Transformer layers; called ``model(x [..., N, width], graph=None)``."""
    options: dict[str, Any] = {"act": act, "score": score, "order": order, "norm": norm}
    layer = partial(TransformerLayer, width, heads, feed_forward, dropout=dropout, **options)
    layers = [layer() for _ in range(depth)]
    last = make_norm(norm, width) if order == "pre" else nn.Identity()
    return TransformerEncoder(layers, last, graph)
