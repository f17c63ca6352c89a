"""The Transformer's layers: residual connections and norms around attention and a feed-forward net.

From the inside out: :class:`FeedForward` and :class:`GatedFeedForward`; :class:`Residual`;
:class:`AttentionBlock`, which :class:`TransformerLayer` fills with multi-head attention;
:class:`CrossBlock`, which also reads another sequence, and :class:`DecoderLayer` likewise; and
:class:`TransformerStack`, layers that share a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, Unpack, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.arguments import check_choice
from edgewise.biases import EdgeTerm
from edgewise.graphs import Pattern, check_graph
from edgewise.layers.attention import LayerTerms, MultiHeadAttention, Projections
from edgewise.layers.sequential import GraphLayer

Norm = Literal["layer", "batch", "rms"] | Callable[[int], nn.Module]
Order = Literal["post", "pre"]

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "tanh": nn.Tanh,
}


def activation(name: str) -> nn.Module:
    """The non-linearity of this name."""
    check_choice("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]()


def apply_dropout(dropout: nn.Module, x: Tensor) -> Tensor:
    """``dropout(x)``; in a step of decoding a module that does nothing takes half a product."""
    out: Tensor = dropout(x) if dropout.training and dropout.p else x
    return out


class FeedForward(nn.Sequential):
    r"""Two linear maps with a non-linearity between, :math:`W_2\,\sigma(W_1 x + b_1) + b_2`.

    Args:
        width: of input and output.
        hidden: between them, usually 2 to 4 times as wide.
        act: a name of ``ACTIVATIONS``.
        dropout: after the non-linearity.
        bias: whether the maps have b.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        act: str = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        first, last = nn.Linear(width, hidden, bias=bias), nn.Linear(hidden, width, bias=bias)
        super().__init__(first, activation(act), nn.Dropout(dropout), last)

    def forward(self, x: Tensor) -> Tensor:
        first, act, dropout, last = self
        out: Tensor = last(apply_dropout(dropout, act(first(x))))
        return out


class GatedFeedForward(nn.Module):
    r"""A feed-forward network with a gate, :math:`W_2 (\sigma(W_g x) \odot W_1 x)`, without biases.

    SwiGLU for ``silu``, GEGLU for ``gelu`` (Shazeer, GLU variants improve Transformer, 2020).

    Args:
        width: of input and output.
        hidden: between them; 8/3 as wide has as many weights as 4 times without a gate.
        act: σ.
        dropout: before the last map.
    """

    def __init__(self, width: int, hidden: int, *, act: str = "silu", dropout: float = 0.0) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.act, self.dropout = activation(act), nn.Dropout(dropout)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(apply_dropout(self.dropout, self.act(self.gate(x)) * self.up(x)))
        return out


class NodeBatchNorm(nn.BatchNorm1d):
    """Batch norm over every node of ``[..., N, width]``.

    A batch of one node, or none, has no variance: it is scaled by the running mean and variance,
    which stay as they are, in training too, where ``torch.nn.BatchNorm1d`` raises an error.
    """

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        if self.training and len(rows) < 2:
            mean, variance = self.running_mean, self.running_var
            return F.batch_norm(rows, mean, variance, self.weight, self.bias, eps=self.eps).view_as(
                x
            )
        return super().forward(rows).view_as(x)


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layer": nn.LayerNorm,
    "batch": NodeBatchNorm,
    "rms": nn.RMSNorm,
}


def make_norm(norm: Norm, width: int) -> nn.Module:
    """The norm of this name, or what the callable makes, for this width."""
    if isinstance(norm, str):
        check_choice("norm", norm, NORMS)
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

    Raises:
        ArgumentError: another order.
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
        check_choice("order", order, get_args(Order))
        self.sublayer, self.order = sublayer, order
        self.norm = make_norm(norm, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        inner = self.norm(x) if self.order == "pre" else x
        out: Tensor = x + apply_dropout(self.dropout, self.sublayer(inner, *args, **kwargs))
        return self.norm(out) if self.order == "post" else out


class AttentionBlock(GraphLayer):
    """Attention over a graph, then a feed-forward network, each with residual and norm.

    Args:
        attention: called ``attention(x, graph, **terms)``, its output as wide as x.
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
        x = self.attention(x, graph, **terms)
        out: Tensor = self.feed_forward(x)
        return out


class TransformerLayer(AttentionBlock):
    """The Transformer's layer: multi-head attention, then a feed-forward network.

    On the complete graph it is ``torch.nn.TransformerEncoderLayer``; on the causal graph it is
    GPT's; on a molecule's bonds it is a graph Transformer's layer (Dwivedi and Bresson, 2020, who
    take batch norm).

    Args:
        width, heads, projections: as in :class:`~edgewise.layers.MultiHeadAttention`.
        feed_forward: hidden width of the feed-forward network.
        act: its non-linearity.
        score: a name of :data:`edgewise.layers.SCORES`.
        normaliser: ``"softmax"``, ``"sparsemax"``, ``"entmax"``, or ``"learned"``, an α a head.
        order, norm: see :class:`Residual`.
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
        normaliser: str = "softmax",
        projections: Projections = "full",
        order: Order = "post",
        norm: Norm = "layer",
        dropout: float = 0.0,
    ) -> None:
        attention = MultiHeadAttention(
            width,
            heads,
            score=score,
            normaliser=normaliser,
            projections=projections,
            dropout=dropout,
        )
        network = FeedForward(width, feed_forward, act=act, dropout=dropout)
        super().__init__(attention, network, width, order=order, norm=norm, dropout=dropout)


class CrossBlock(GraphLayer):
    """Attention over a graph, then over another sequence, then a feed-forward network.

    Args:
        attention: over the targets' own graph.
        cross: cross-attention over ``source_graph``, of the source and the targets.
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
        super().__init__()
        self.attention = Residual(attention, width, order=order, norm=norm, dropout=dropout)
        self.feed_forward = Residual(feed_forward, width, order=order, norm=norm, dropout=dropout)
        self.cross = Residual(cross, width, order=order, norm=norm, dropout=dropout)

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        source: Tensor,
        source_graph: Pattern,
        source_bias: EdgeTerm | None = None,
        **terms: Unpack[LayerTerms],
    ) -> Tensor:
        """``[..., N, width]`` from x of that shape.

        Args:
            x: the targets' features.
            graph: who reads whom among the targets.
            source: features ``[..., S, width]`` of the other sequence.
            source_graph: which target reads which of it.
            source_bias: for the edges of that graph, -inf where the source is padding.
            terms: of the targets' own attention; cross-attention is given the cache, too.
        """
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
        normaliser: str = "softmax",
        projections: Projections = "full",
        order: Order = "post",
        norm: Norm = "layer",
        dropout: float = 0.0,
    ) -> None:
        made = partial(
            MultiHeadAttention,
            width,
            heads,
            score=score,
            normaliser=normaliser,
            projections=projections,
            dropout=dropout,
        )
        attention, cross = made(), made(source_width=width)
        network = FeedForward(width, feed_forward, act=act, dropout=dropout)
        super().__init__(attention, cross, network, width, order=order, norm=norm, dropout=dropout)


class TransformerStack(GraphLayer):
    """Transformer layers that share one graph, and a norm after the last.

    Args:
        layers: called ``layer(x, graph, **terms)``.
        norm: after them; ``nn.Identity()`` for none, as post-norm layers end with one.
        graph: who reads whom, where a call gives no other.
    """

    def __init__(self, layers: Sequence[nn.Module], norm: nn.Module, graph: Pattern) -> None:
        super().__init__()
        self.layers, self.norm, self.graph = nn.ModuleList(layers), norm, check_graph(graph)

    def forward(self, x: Tensor, graph: Pattern | None = None, **terms: Any) -> Tensor:
        """``[..., N, width]`` from x of that shape, on ``graph`` or the one given at the start."""
        graph = self.graph if graph is None else check_graph(graph)
        for layer in self.layers:
            x = layer(x, graph, **terms)
        out: Tensor = self.norm(x)
        return out
