"""The decoder's layer: between attention and feed-forward it reads another sequence."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor, nn

from edgewise.biases import EdgeTerm
from edgewise.graphs import Pattern
from edgewise.layers.attention import LayerTerms
from edgewise.layers.block import AttentionBlock, Norm, Order, Residual, multi_head
from edgewise.layers.feed_forward import FeedForward


class CrossTerms(LayerTerms, total=False):
    """What a decoder layer may be called with besides features and a graph.

    ``source`` is ``[..., S, width]``, ``source_graph`` says which target reads which of it, and
    ``source_bias`` is for the edges of that graph, -inf where the source is padding.
    """

    source: Tensor
    source_graph: Pattern
    source_bias: EdgeTerm | None


class CrossBlock(AttentionBlock):
    """An :class:`AttentionBlock` that also reads another sequence, between its two halves.

    Args:
        attention: over the targets' own graph.
        cross: over ``source_graph``, of the source and the targets.
        feed_forward, width, order, norm, dropout: as in :class:`AttentionBlock`.
    """

    def __init__(
        self,
        attention: nn.Module,
        cross: nn.Module,
        feed_forward: nn.Module,
        width: int,
        *,
        order: Order = "post",
        norm: Norm = "layer",
        dropout: float = 0.0,
    ) -> None:
        super().__init__(attention, feed_forward, width, order=order, norm=norm, dropout=dropout)
        self.cross = Residual(cross, width, order=order, norm=norm, dropout=dropout)

    def forward(  # type: ignore[override]  # it cannot be called without a source
        self,
        x: Tensor,
        graph: Pattern,
        *,
        source: Tensor,
        source_graph: Pattern,
        source_bias: EdgeTerm | None = None,
        **terms: Unpack[LayerTerms],
    ) -> Tensor:
        """``[..., N, width]`` from x of that shape and source ``[..., S, width]``."""
        x = self.attention(x, graph, **terms)
        x = self.cross(x, source_graph, source, bias=source_bias, cache=terms.get("cache"))
        out: Tensor = self.feed_forward(x)
        return out


class DecoderLayer(CrossBlock):
    """The Transformer decoder's layer; on a causal graph ``torch.nn.TransformerDecoderLayer``.

    The arguments are those of :class:`TransformerLayer`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward: int,
        *,
        act: str = "relu",
        score: str = "dot",
        order: Order = "post",
        norm: Norm = "layer",
        dropout: float = 0.0,
    ) -> None:
        attention, cross = (
            multi_head(width, heads, score=score, dropout=dropout) for _ in range(2)
        )
        network = FeedForward(width, feed_forward, act=act, dropout=dropout)
        super().__init__(attention, cross, network, width, order=order, norm=norm, dropout=dropout)
