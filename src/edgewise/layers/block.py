"""Residual connections and norms around a sublayer, and the Transformer layer made of two."""

from __future__ import annotations

from typing import Any, Literal, Unpack

from torch import Tensor, nn

from edgewise.graphs import Pattern
from edgewise.layers.attention import EdgeTerms, MultiHeadAttention
from edgewise.layers.feed_forward import FeedForward
from edgewise.layers.sequential import GraphLayer

Norm = Literal["layer", "batch"]
Order = Literal["post", "pre"]


class NodeBatchNorm(nn.BatchNorm1d):
    """Batch norm over every node of ``[..., N, width]``."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, -2)).view_as(x)


NORMS: dict[str, type[nn.Module]] = {"layer": nn.LayerNorm, "batch": NodeBatchNorm}


class Residual(nn.Module):
    r"""A sublayer with a residual connection and a norm.

    Post-norm (Vaswani et al., 2017) is :math:`\mathrm{norm}(x + f(x))`; pre-norm, which trains
    without warm-up (Xiong et al., 2020), is :math:`x + f(\mathrm{norm}(x))`.

    Args:
        sublayer: f; further arguments of the call are passed on to it.
        width: of x.
        order: ``"post"`` or ``"pre"``.
        norm: ``"layer"`` or ``"batch"``.
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
        self.norm = NORMS[norm](width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        inner = self.norm(x) if self.order == "pre" else x
        out: Tensor = x + self.dropout(self.sublayer(inner, *args, **kwargs))
        return self.norm(out) if self.order == "post" else out


class Block(GraphLayer):
    """A layer that reads along the graph, then a feed-forward network, each with residual and norm.

    Args:
        attention: called ``attention(x, graph, **edges)``, its output as wide as x.
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
        super().__init__()
        network = FeedForward(width, feed_forward, act=act, dropout=dropout)
        self.attention = Residual(attention, width, order=order, norm=norm, dropout=dropout)
        self.feed_forward = Residual(network, width, order=order, norm=norm, dropout=dropout)

    def forward(self, x: Tensor, graph: Pattern, **edges: Unpack[EdgeTerms]) -> Tensor:
        """``[..., N, width]`` from x of that shape."""
        out: Tensor = self.feed_forward(self.attention(x, graph, **edges))
        return out


class TransformerLayer(Block):
    """Multi-head attention over a graph in a :class:`Block`.

    On the complete graph it is ``torch.nn.TransformerEncoderLayer``; on a molecule's bonds it is a
    graph Transformer's layer (Dwivedi and Bresson, 2020, who take batch norm).

    Args:
        width, heads: as in :class:`~edgewise.layers.MultiHeadAttention`.
        feed_forward, act, order, norm: as in :class:`Block`.
        dropout: on attention weights, hidden features and both sublayers' outputs.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward: int,
        *,
        act: str = "relu",
        order: Order = "post",
        norm: Norm = "layer",
        dropout: float = 0.0,
    ) -> None:
        attention = MultiHeadAttention(width, heads, dropout=dropout)
        super().__init__(
            attention, width, feed_forward, act=act, order=order, norm=norm, dropout=dropout
        )
