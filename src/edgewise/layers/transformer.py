"""Transformer layers: residual connections and norms around attention and feed-forward networks.

From the inside out: :class:`FeedForward` and :class:`GatedFeedForward`; :class:`Residual`;
:class:`AttentionBlock` and its multi-head version :class:`TransformerLayer`; :class:`CrossBlock`,
with cross-attention, and its multi-head version :class:`DecoderLayer`; and
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
    """Return the activation of this name."""
    check_choice("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]()


def apply_dropout(dropout: nn.Module, x: Tensor) -> Tensor:
    """Return ``dropout(x)``, without the call if it has no effect, which speeds up decoding."""
    out: Tensor = dropout(x) if dropout.training and dropout.p else x
    return out


class FeedForward(nn.Sequential):
    r"""Feed-forward network, :math:`W_2\,\sigma(W_1 x + b_1) + b_2`.

    Args:
        width: feature size of input and output.
        ffn_dim: hidden size, usually 2 to 4 times ``width``.
        act: σ, a name of ``ACTIVATIONS``.
        dropout: dropout rate after σ.
        bias: whether the maps have biases.
    """

    def __init__(
        self,
        width: int,
        ffn_dim: int,
        *,
        act: str = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        first, last = nn.Linear(width, ffn_dim, bias=bias), nn.Linear(ffn_dim, width, bias=bias)
        super().__init__(first, activation(act), nn.Dropout(dropout), last)

    def forward(self, x: Tensor) -> Tensor:
        first, act, dropout, last = self
        out: Tensor = last(apply_dropout(dropout, act(first(x))))
        return out


class GatedFeedForward(nn.Module):
    r"""Gated feed-forward network, :math:`W_2 (\sigma(W_g x) \odot W_1 x)`, without biases.

    SwiGLU for ``silu``, GEGLU for ``gelu`` (Shazeer, GLU variants improve Transformer, 2020).

    Args:
        width: feature size of input and output.
        ffn_dim: hidden size; 8/3 · width has as many weights as 4 · width without a gate.
        act: σ.
        dropout: dropout rate before the last map.
    """

    def __init__(
        self, width: int, ffn_dim: int, *, act: str = "silu", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(width, ffn_dim, bias=False)
        self.up = nn.Linear(width, ffn_dim, bias=False)
        self.act, self.dropout = activation(act), nn.Dropout(dropout)
        self.down = nn.Linear(ffn_dim, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(apply_dropout(self.dropout, self.act(self.gate(x)) * self.up(x)))
        return out


class NodeBatchNorm(nn.BatchNorm1d):
    """Batch norm over all nodes of ``[..., N, width]``.

    A batch of at most one node has no variance. It is scaled by the running statistics, which stay
    unchanged, also in training, where ``torch.nn.BatchNorm1d`` raises an error.
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
    """Return the norm of this name, or of this factory, for ``width`` features."""
    if isinstance(norm, str):
        check_choice("norm", norm, NORMS)
        norm = NORMS[norm]
    return norm(width)


class Residual(nn.Module):
    r"""Residual connection and norm around a sublayer.

    Post-norm (Vaswani et al., 2017) is :math:`\mathrm{norm}(x + f(x))`; pre-norm, which trains
    without warm-up (Xiong et al., 2020), is :math:`x + f(\mathrm{norm}(x))`.

    Args:
        sublayer: f; it receives further arguments of the call.
        width: feature size.
        order: ``"post"`` or ``"pre"``.
        norm: ``"layer"``, ``"batch"``, ``"rms"`` or a factory called with ``width``.
        dropout: dropout rate on f(x).

    Raises:
        ArgumentError: ``order`` is unknown.
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
    """Attention over a graph, then a feed-forward network, each with residual connection and norm.

    Args:
        attention: called ``attention(x, graph, **terms)``, with an output of the shape of x.
        feed_forward: called ``feed_forward(x)``.
        width: feature size.
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
        """Return features ``[..., N, width]`` of the same shape as x."""
        x = self.attention(x, graph, **terms)
        out: Tensor = self.feed_forward(x)
        return out


class TransformerLayer(AttentionBlock):
    """Transformer layer: multi-head attention, then a feed-forward network.

    On the complete graph it is ``torch.nn.TransformerEncoderLayer``; on the causal graph, the layer
    of GPT; on molecular bonds with batch norm, that of the graph Transformer (Dwivedi and Bresson,
    2020).

    Args:
        width, heads, projections: see :class:`~edgewise.layers.MultiHeadAttention`.
        ffn_dim: hidden size of the feed-forward network.
        act: its activation.
        score: a name of :data:`edgewise.layers.SCORES`.
        normaliser: ``"softmax"``, ``"sparsemax"``, ``"entmax"``, or ``"learned"`` (α for each
            head).
        order, norm: see :class:`Residual`.
        dropout: dropout rate of attention weights, hidden features and sublayer outputs.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        ffn_dim: int,
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
        network = FeedForward(width, ffn_dim, act=act, dropout=dropout)
        super().__init__(attention, network, width, order=order, norm=norm, dropout=dropout)


class CrossBlock(GraphLayer):
    """Attention over a graph, cross-attention, then a feed-forward network.

    Args:
        attention: self-attention of the targets.
        cross: cross-attention over ``source_graph``.
        feed_forward, width, order, norm, dropout: see :class:`AttentionBlock`.
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
        """Return features ``[..., N, width]`` of the same shape as x.

        Args:
            x: features of the targets.
            graph: attention graph of the targets.
            source: features ``[..., S, width]`` of the other sequence.
            source_graph: attention graph from the source to the targets.
            source_bias: bias of its edges, -inf at padding of the source.
            terms: edge terms of self-attention; cross-attention receives only the cache.
        """
        x = self.attention(x, graph, **terms)
        x = self.cross(x, source_graph, source, bias=source_bias, cache=terms.get("cache"))
        out: Tensor = self.feed_forward(x)
        return out


class DecoderLayer(CrossBlock):
    """Transformer decoder layer; on a causal graph it is ``torch.nn.TransformerDecoderLayer``.

    The arguments are those of :class:`TransformerLayer`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        ffn_dim: int,
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
        network = FeedForward(width, ffn_dim, act=act, dropout=dropout)
        super().__init__(attention, cross, network, width, order=order, norm=norm, dropout=dropout)


class TransformerStack(GraphLayer):
    """Transformer layers that share a graph, and a final norm.

    Args:
        layers: called ``layer(x, graph, **terms)``.
        norm: final norm; ``nn.Identity()`` after post-norm layers.
        graph: default attention pattern.
    """

    def __init__(self, layers: Sequence[nn.Module], norm: nn.Module, graph: Pattern) -> None:
        super().__init__()
        self.layers, self.norm, self.graph = nn.ModuleList(layers), norm, check_graph(graph)

    def forward(self, x: Tensor, graph: Pattern | None = None, **terms: Any) -> Tensor:
        """Return features ``[..., N, width]``; ``graph`` replaces the default pattern."""
        graph = self.graph if graph is None else check_graph(graph)
        for layer in self.layers:
            x = layer(x, graph, **terms)
        out: Tensor = self.norm(x)
        return out
