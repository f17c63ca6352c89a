"""Residual connections and norms around a sublayer, and the Transformer layer made of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Unpack

from torch import Tensor, nn

from edgewise.errors import unknown_name
from edgewise.graphs import Pattern
from edgewise.layers.attention import LayerTerms, MultiHeadAttention
from edgewise.layers.feed_forward import FeedForward
from edgewise.layers.scores import learned_score
from edgewise.layers.sequential import GraphLayer

Norm = Literal["layer", "batch", "rms"] | Callable[[int], nn.Module]
Order = Literal["post", "pre"]


class NodeBatchNorm(nn.BatchNorm1d):
    """Batch norm over every node of ``[..., N, width]``."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, -2)).view_as(x)


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layer": nn.LayerNorm,
    "batch": NodeBatchNorm,
    "rms": nn.RMSNorm,
}


def make_norm(norm: Norm, width: int) -> nn.Module:
    """The norm of this name, or what the callable makes, for this width."""
    if isinstance(norm, str):
        if norm not in NORMS:
            raise unknown_name("norm", norm, NORMS)
        norm = NORMS[norm]
    return norm(width)


class Residual(nn.Module):
    r"""A sublayer with a residual connection and a norm.

    Post-norm (Vaswani et al., 2017) is :math:`\mathrm{norm}(x + f(x))`; pre-norm, which trains
    without warm-up (Xiong et al., 2020), is :math:`x + f(\mathrm{norm}(x))`.

    Args:
        sublayer: f; further arguments of the call are passed on to it.
        width: of x.
        order: ``"post"`` or ``"pre"``.
        norm: ``"layer"``, ``"batch"``, ``"rms"`` or a callable that makes one for a width.
        dropout: on f(x).
    """

    def __init__(
        self,
        sublayer: nn.Module,
        width: int,
        *,
        order: Order = "post",
        norm: Norm = "layer",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.sublayer, self.order = sublayer, order
        self.norm = make_norm(norm, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        inner = self.norm(x) if self.order == "pre" else x
        change = self.sublayer(inner, *args, **kwargs)
        if self.dropout.p:
            change = self.dropout(change)
        out: Tensor = x + change
        return self.norm(out) if self.order == "post" else out


class AttentionBlock(GraphLayer):
    """Attention over a graph, then a feed-forward network, each with residual and norm.

    Args:
        attention: called ``attention(x, graph, **terms)``.
        feed_forward: called ``feed_forward(x)``.
        width: of x.
        order, norm, dropout: see :class:`Residual`.
    """

    def __init__(
        self,
        attention: nn.Module,
        feed_forward: nn.Module,
        width: int,
        *,
        order: Order = "post",
        norm: Norm = "layer",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention = Residual(attention, width, order=order, norm=norm, dropout=dropout)
        self.feed_forward = Residual(feed_forward, width, order=order, norm=norm, dropout=dropout)

    def forward(self, x: Tensor, graph: Pattern, **terms: Unpack[LayerTerms]) -> Tensor:
        """``[..., N, width]`` from x of that shape."""
        out: Tensor = self.feed_forward(self.attention(x, graph, **terms))
        return out


class Block(AttentionBlock):
    """An :class:`AttentionBlock` whose network is two linear maps.

    Args:
        attention: called ``attention(x, graph, **terms)``, its output as wide as x.
        width: of x.
        feed_forward: hidden width of the feed-forward network.
        act: its non-linearity.
        order, norm: see :class:`Residual`.
        dropout: on hidden features and both sublayers' outputs.
    """

    def __init__(
        self,
        attention: nn.Module,
        width: int,
        feed_forward: int,
        *,
        act: str = "relu",
        order: Order = "post",
        norm: Norm = "layer",
        dropout: float = 0.0,
    ) -> None:
        network = FeedForward(width, feed_forward, act=act, dropout=dropout)
        super().__init__(attention, network, width, order=order, norm=norm, dropout=dropout)


class TransformerLayer(Block):
    """The Transformer's layer: multi-head attention in a :class:`Block`.

    On the complete graph it is ``torch.nn.TransformerEncoderLayer``; on a molecule's bonds it is a
    graph Transformer's layer (Dwivedi and Bresson, 2020, who take batch norm).

    Args:
        width, heads: as in :class:`~edgewise.layers.MultiHeadAttention`.
        feed_forward, act, order, norm: as in :class:`Block`.
        score: a name of :data:`edgewise.layers.SCORES`.
        dropout: on attention weights, hidden features and both sublayers' outputs.
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
        attention = multi_head(width, heads, score=score, dropout=dropout)
        super().__init__(
            attention, width, feed_forward, act=act, order=order, norm=norm, dropout=dropout
        )


def multi_head(width: int, heads: int, *, score: str, dropout: float) -> MultiHeadAttention:
    """Multi-head attention with the score of this name."""
    compare = learned_score(score, heads, max(width // max(heads, 1), 1))
    return MultiHeadAttention(width, heads, score=compare, dropout=dropout)
