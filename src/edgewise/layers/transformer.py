"""Transformer layers: residual connections and norms around attention and feed-forward networks.

A :class:`TransformerStack` contains layers that share a graph. A layer is a
:class:`TransformerLayer` or a :class:`DecoderLayer` (with cross-attention). They consist of
:class:`MultiHeadAttention` and a :class:`FeedForward` or :class:`GatedFeedForward` network, each in
a :class:`Residual`. :class:`AttentionBlock` and :class:`CrossBlock` allow another attention module.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypedDict, Unpack, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice, check_divides
from edgewise._utils.errors import ArgumentError
from edgewise._utils.torch_internals import in_functorch_transform, is_tracing
from edgewise.attention.attend import attend
from edgewise.attention.biases import EdgeTerm, EdgeVector
from edgewise.attention.normalisers import Normaliser
from edgewise.attention.scores import DOT, Score
from edgewise.attention.steps import attention_weights
from edgewise.distributed.exchange import sum_gradients
from edgewise.distributed.partitions import map_tensors
from edgewise.engines.call import for_each_query
from edgewise.graphs import Pattern, check_graph
from edgewise.layers.cache import Cache, KeyValue
from edgewise.layers.normalisers import LearnedEntmax, layer_normaliser
from edgewise.layers.projections import JointLinear, LinearByHead
from edgewise.layers.pruning import kept_groups, rows_of_heads, select, term_of_heads
from edgewise.layers.scores import LearnedScore, ScaledDot, learned_score
from edgewise.layers.sequential import GraphLayer

Projections = Literal["full", "split"]
Norm = Literal["layer", "batch", "rms"] | Callable[[int], nn.Module]
Order = Literal["post", "pre"]


class AttentionOptions(TypedDict, total=False):
    """Optional arguments for the attention in a layer; see :class:`MultiHeadAttention`."""

    score: str
    normaliser: str
    projections: Projections
    rotary: nn.Module | None


class MultiHeadAttention(GraphLayer):
    r"""Multi-head attention over a graph, :math:`O\,[\mathrm{head}_1; \dots; \mathrm{head}_H]`.

    .. math:: \mathrm{head}_h = \mathrm{attend}(Q_h x,\; K_h s,\; V_h s,\; \mathrm{graph})

    Here s is x (self-attention) or another sequence (cross-attention). On the complete graph, the
    layer equals ``torch.nn.MultiheadAttention`` (Vaswani et al., 2017).

    The parameters of self-attention are one joint projection ``qkv``. Cross-attention and split
    projections have separate projections ``query``, ``key`` and ``value``.

    Args:
        width: feature size of targets and outputs.
        heads: number of heads H, a divisor of ``width`` unless ``head_width`` is given.
        source_width: feature size of the sources, for cross-attention; ``None`` for self-attention.
        head_width: head size D; ``width / heads`` by default.
        key_heads: number of key and value heads, a divisor of H. Each serves a group of query heads
            (grouped-query attention, Ainslie et al., 2023).
        projections: ``"full"`` (each head projects all features) or ``"split"`` (head h projects
            only the h-th of H parts of the features, with H times fewer weights).
        score: score function, as a name in :data:`edgewise.layers.SCORES`, a :class:`LearnedScore`,
            or a score of :func:`edgewise.attend`.
        normaliser: normaliser of :func:`edgewise.attend`, or ``"learned"`` for α-entmax with a
            learned α for each head.
        rotary: rotary encoding of queries and keys, such as :class:`edgewise.encodings.Rotary`.
        dropout: dropout rate of attention weights.
        bias: whether projections have biases.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> attention = layers.MultiHeadAttention(32, heads=4)
        >>> attention(torch.randn(2, 10, 32), graphs.causal()).shape
        torch.Size([2, 10, 32])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        source_width: int | None = None,
        head_width: int | None = None,
        key_heads: int | None = None,
        projections: Projections = "full",
        score: Score | LearnedScore | str = DOT,
        normaliser: Normaliser | str = "softmax",
        rotary: nn.Module | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        key_heads = key_heads or heads
        if head_width is None:
            check_divides("heads", heads, width, "the width", "change heads or width")
        check_divides(
            "key_heads", key_heads, heads, "the number of heads", "change heads or key_heads"
        )
        check_choice("projections", projections, get_args(Projections))
        self.heads, self.key_heads = heads, key_heads
        # Rotary encodings and some scores depend on the positions of nodes.
        self.reach = 1 if rotary is None and score is DOT else None
        self.head_width = head_width or width // heads
        if isinstance(score, str):
            score = learned_score(score, heads, self.head_width)
        # ScaledDot has no weights, so all layers share one object.
        self.score = DOT if isinstance(score, ScaledDot) else score
        self.normaliser = layer_normaliser(normaliser, heads)
        self.rotary, self.dropout, self.source_width = _unshared(rotary), dropout, source_width

        queries, keys = heads * self.head_width, key_heads * self.head_width
        input_width = width if source_width is None else source_width
        if projections == "split":
            self.query: nn.Module = LinearByHead(heads, width, queries, bias=bias)
            self.key: nn.Module = LinearByHead(key_heads, input_width, keys, bias=bias)
            self.value: nn.Module = LinearByHead(key_heads, input_width, keys, bias=bias)
        elif source_width is not None:
            self.query = nn.Linear(width, queries, bias=bias)
            self.key = nn.Linear(input_width, keys, bias=bias)
            self.value = nn.Linear(input_width, keys, bias=bias)
        self.qkv: JointLinear | None = None
        if projections == "full" and source_width is None:
            self.qkv = JointLinear(width, (queries, keys, keys), bias=bias)
        self.output = nn.Linear(queries, width, bias=bias)
        self.kept_heads: list[int] | None = None
        self.device_mesh: Any = None  # Set if processes divide the heads.

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        source: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        cache: Cache | None = None,
        bias: EdgeTerm | None = None,
        gain: EdgeTerm | None = None,
        edge_key: EdgeVector | None = None,
        edge_value: EdgeVector | None = None,
    ) -> Tensor:
        """Return outputs ``[..., N_dst, width]``.

        Args:
            x: features of the targets, ``[..., N_dst, width]``.
            graph: attention graph or pattern.
            source: features of the sources ``[..., N_src, source_width]``; cross-attention only.
            positions: positions ``[..., N_dst]`` for ``rotary``; by default 0, 1, ... after the
                cached positions.
            cache: keys and values of earlier nodes; the keys and values of x are added to the
                cache.
            bias: bias of the edges; see :func:`edgewise.attend`.
            gain: factor of the scores.
            edge_key: vectors added to the keys.
            edge_value: vectors added to the values.

        Raises:
            ArgumentError: ``source`` is given to self-attention, or missing in cross-attention.
        """
        query, key, value, score = self._project(x, source, positions, cache)
        normaliser = self.normaliser
        if self.kept_heads is not None:
            bias, gain = self._of_kept_heads(bias, -1), self._of_kept_heads(gain, -1)
            edge_key = self._of_kept_heads(edge_key, -2)
            edge_value = self._of_kept_heads(edge_value, -2)
        heads = attend(
            query,
            key,
            value,
            graph,
            score=score,
            bias=bias,
            gain=gain,
            edge_key=edge_key,
            edge_value=edge_value,
            dropout=self.dropout if self.training else 0.0,
            normaliser=normaliser() if isinstance(normaliser, LearnedEntmax) else normaliser,
            layout="NHD",
        )
        out: Tensor = self.output(heads.flatten(-2))
        return out

    def weights(
        self,
        x: Tensor,
        graph: Pattern,
        source: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        bias: EdgeTerm | None = None,
        gain: EdgeTerm | None = None,
        edge_key: EdgeVector | None = None,
    ) -> Tensor:
        """Return attention weights ``[..., E, H]`` in the order of ``graph.edge_index``.

        The arguments are those of :meth:`forward`. In each head, the weights of a target sum to 1.
        """
        query, key, _, score = self._project(x, source, positions, None)
        normaliser = self.normaliser
        if self.kept_heads is not None:
            bias, gain = self._of_kept_heads(bias, -1), self._of_kept_heads(gain, -1)
            edge_key = self._of_kept_heads(edge_key, -2)
        return attention_weights(
            query,
            key,
            graph,
            score=score,
            bias=bias,
            gain=gain,
            edge_key=edge_key,
            normaliser=normaliser() if isinstance(normaliser, LearnedEntmax) else normaliser,
        )

    @property
    def can_keep_heads(self) -> bool:
        """True if heads can be removed.

        Heads cannot be removed with split projections, where each head uses a part of the features,
        nor in subclasses that override the computation.
        """
        split = isinstance(getattr(self, "query", None), LinearByHead)
        return not split and type(self).forward is MultiHeadAttention.forward

    def keep_heads(self, heads: Sequence[int]) -> None:
        """Keep only the given heads in the projections, in place; needs :attr:`can_keep_heads`.

        A bias and other values of edges passed to the layer keep the original number of heads.

        Args:
            heads: indices of the heads to keep, in the numbering of the unpruned layer.

        Raises:
            ArgumentError: a head does not exist or was removed before, no head would remain, or the
                groups of grouped-query attention would have different sizes.
        """
        remaining = list(range(self.heads)) if self.kept_heads is None else self.kept_heads
        heads = sorted({int(head) for head in heads})
        if not heads or not set(heads) <= set(remaining):
            raise ArgumentError(
                "heads",
                expected=f"at least one of the heads {', '.join(map(str, remaining))}, and no "
                "others",
                got=", ".join(map(str, heads)) or "none",
                remedy="give only heads that the layer still has, at least one",
            )
        indices = [remaining.index(head) for head in heads]
        groups = kept_groups(indices, self.heads, self.key_heads, type(self).__name__)
        queries = rows_of_heads(indices, self.head_width)
        keys = rows_of_heads(groups, self.head_width)
        if self.qkv is not None:
            self.qkv.keep_rows((queries, keys, keys))
        else:
            linear: Any
            for linear, rows in ((self.query, queries), (self.key, keys), (self.value, keys)):
                linear.weight, linear.bias = select(linear.weight, rows), select(linear.bias, rows)
                linear.out_features = len(rows)
        self.output.weight = select(self.output.weight, queries, 1)
        self.output.in_features = len(queries)
        # In learned scores and normalisers, the first axis of each parameter is the head.
        for module in (self.score, self.normaliser):
            if isinstance(module, nn.Module):
                for name, parameter in list(module.named_parameters()):
                    setattr(module, name, select(parameter, torch.tensor(indices)))
        self.heads, self.key_heads, self.kept_heads = len(heads), len(groups), heads

    def _of_kept_heads(self, term: Any, head_dim: int) -> Any:
        assert self.kept_heads is not None
        if self.device_mesh is not None:
            term = map_tensors(term, partial(sum_gradients, mesh=self.device_mesh))
        return term_of_heads(term, self.kept_heads, head_dim)

    def _project(
        self, x: Tensor, source: Tensor | None, positions: Tensor | None, cache: Cache | None
    ) -> tuple[Tensor, Tensor, Tensor, Score]:
        """Return query, key and value of all heads, and the score function."""
        if (source is None) != (self.source_width is None):
            raise self._wrong_source(source)
        if source is None:
            query, key, value = self._project_self(x, positions, cache)
        else:
            query, key, value = self._project_source(x, source, cache)
        if isinstance(self.score, LearnedScore):
            key, value = for_each_query(query, key), for_each_query(query, value)
            query, key, score = self.score(query, key)
            return query, key, value, score
        return query, key, value, self.score

    def _project_self(
        self, x: Tensor, positions: Tensor | None, cache: Cache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value of self-attention; cached keys and values come first."""
        if self.qkv is not None and self.key_heads == self.heads:
            query, key, value = unbind_qkv(self.qkv(x), self.heads)
        elif self.qkv is not None:
            heads = self._heads(self.qkv(x))
            query, key, value = heads.split((self.heads, self.key_heads, self.key_heads), dim=-2)
        else:
            query, key, value = map(self._heads, (self.query(x), self.key(x), self.value(x)))
        if self.rotary is not None:
            if positions is None and cache is not None:
                positions = torch.arange(x.shape[-2], device=x.device) + cache.length
            query, key = self.rotary(query, positions), self.rotary(key, positions)
        if cache is not None:
            key, value = cache.extended(self, (key, value))
        return query, key, value

    def _project_source(
        self, x: Tensor, source: Tensor, cache: Cache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value of cross-attention; a cache stores key and value once."""

        def key_value() -> KeyValue:
            return self._heads(self.key(source)), self._heads(self.value(source))

        query = self._heads(self.query(x))
        key, value = key_value() if cache is None else cache.once(self, key_value)
        return query, key, value

    def _heads(self, x: Tensor) -> Tensor:
        """Reshape ``[..., N, heads * D]`` to ``[..., N, heads, D]``."""
        # reshape is much faster than unflatten.
        return x.reshape(*x.shape[:-1], x.shape[-1] // self.head_width, self.head_width)

    def _wrong_source(self, source: Tensor | None) -> ArgumentError:
        return ArgumentError(
            "source",
            expected="features to attend to" if source is None else "None for self-attention",
            got="none" if source is None else f"features of shape {list(source.shape)}",
            remedy="build the layer with source_width= for cross-attention, or without "
            "source_width for self-attention",
        )


def _unshared(rotary: nn.Module | None) -> nn.Module | None:
    """Return a copy for one layer, unless layers share parameters.

    ``torch.func.functional_call`` cannot replace buffers of a module that has several parents.
    """
    has_parameters = rotary is not None and any(True for _ in rotary.parameters())
    return rotary if has_parameters else copy.deepcopy(rotary)


def unbind_qkv(joint: Tensor, heads: int) -> tuple[Tensor, ...]:
    """Split ``[..., N, 3 * H * D]`` into query, key and value ``[..., N, H, D]``.

    The backward pass joins the three gradients without a copy if they are stored next to each
    other, as by the attention engine ``tiles``.
    """
    joint = joint.reshape(*joint.shape[:-1], 3, heads, joint.shape[-1] // (3 * heads))
    if not torch.is_grad_enabled() or is_tracing((joint,)) or in_functorch_transform():
        return joint.unbind(-3)
    qkv: tuple[Tensor, ...] = _UnbindQKV.apply(joint)  # type: ignore[no-untyped-call]
    return qkv


class _UnbindQKV(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, joint: Tensor) -> tuple[Tensor, ...]:
        ctx.shape = joint.shape
        return joint.unbind(-3)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        first = grads[0]
        heads, width = ctx.shape[-2:]
        joint = torch.empty(ctx.shape, device="meta", dtype=first.dtype)
        adjacent = all(
            grad.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
            and grad.storage_offset() == first.storage_offset() + index * heads * width
            and grad.stride() == joint.select(-3, index).stride()
            for index, grad in enumerate(grads)
        )
        if adjacent and not torch.is_grad_enabled():
            return first.as_strided(joint.shape, joint.stride())
        return torch.stack(grads, -3)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "tanh": nn.Tanh,
}


def activation(name: str) -> nn.Module:
    """Return the activation function with this name, as a module.

    Example:
        >>> from edgewise import layers
        >>> layers.activation("gelu_tanh")
        GELU(approximate='tanh')
    """
    check_choice("act", name, ACTIVATIONS)
    return ACTIVATIONS[name]()


def apply_dropout(dropout: nn.Module, x: Tensor) -> Tensor:
    """Return ``dropout(x)``; skip the call if dropout is off, which speeds up decoding."""
    out: Tensor = dropout(x) if dropout.training and dropout.p else x
    return out


class FeedForward(nn.Sequential):
    r"""Feed-forward network, :math:`W_2\,\sigma(W_1 x + b_1) + b_2`.

    Args:
        width: feature size of input and output.
        ffn_dim: hidden size, usually 2 to 4 times ``width``.
        act: name of the activation function σ, such as ``"gelu"`` or ``"silu"``.
        dropout: dropout rate after σ.
        bias: whether the linear maps have biases.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layers.FeedForward(32, 64)(torch.randn(10, 32)).shape
        torch.Size([10, 32])
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

    The network is called SwiGLU with ``silu`` and GEGLU with ``gelu`` (Shazeer, GLU variants
    improve Transformer, 2020).

    Args:
        width: feature size of input and output.
        ffn_dim: hidden size; 8/3 · width has as many weights as 4 · width without a gate.
        act: name of the activation function σ, such as ``"gelu"`` or ``"silu"``.
        dropout: dropout rate before the last linear map.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layers.GatedFeedForward(32, 64)(torch.randn(10, 32)).shape
        torch.Size([10, 32])
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

    A single node has no variance. In training, a batch of at most one node is therefore scaled by
    the running statistics, which stay unchanged. (``torch.nn.BatchNorm1d`` raises an error.)

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layers.NodeBatchNorm(16)(torch.randn(2, 10, 16)).shape
        torch.Size([2, 10, 16])
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
    """Return a norm module for ``width`` features, given its name or a function ``f(width)``."""
    if isinstance(norm, str):
        check_choice("norm", norm, NORMS)
        norm = NORMS[norm]
    return norm(width)


class Residual(nn.Module):
    r"""Residual connection and norm around a sublayer.

    Post-norm (Vaswani et al., 2017) is :math:`\mathrm{norm}(x + f(x))`; pre-norm, which trains
    without warm-up (Xiong et al., 2020), is :math:`x + f(\mathrm{norm}(x))`.

    Args:
        sublayer: the function f, which also receives the further arguments of a call.
        width: feature size.
        order: ``"post"`` or ``"pre"``.
        norm: ``"layer"``, ``"batch"``, ``"rms"``, or a function that is called with ``width`` and
            returns a norm.
        dropout: dropout rate on f(x).

    Raises:
        ArgumentError: ``order`` is unknown.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> block = layers.Residual(layers.FeedForward(32, 64), 32, order="pre")
        >>> block(torch.randn(10, 32)).shape
        torch.Size([10, 32])
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


class ResidualOptions(TypedDict, total=False):
    """Optional arguments of :class:`Residual`."""

    order: Order
    norm: Norm
    dropout: float


class AttentionBlock(GraphLayer):
    """Transformer layer with any attention module: attention, then a feed-forward network.

    Args:
        attention: called as ``attention(x, graph, ...)``; its output has the shape of x.
        feed_forward: called as ``feed_forward(x)``.
        width: feature size.
        residual: arguments ``order``, ``norm`` and ``dropout`` of :class:`Residual`.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> attention, network = layers.MultiHeadAttention(32, 4), layers.FeedForward(32, 64)
        >>> block = layers.AttentionBlock(attention, network, 32, order="pre")
        >>> block(torch.randn(2, 10, 32), graphs.window(2)).shape
        torch.Size([2, 10, 32])
    """

    def __init__(
        self,
        attention: nn.Module,
        feed_forward: nn.Module,
        width: int,
        **residual: Unpack[ResidualOptions],
    ) -> None:
        super().__init__()
        self.attention = Residual(attention, width, **residual)
        self.feed_forward = Residual(feed_forward, width, **residual)
        self.reach = getattr(attention, "reach", None)

    def forward(self, x: Tensor, graph: Pattern, **arguments: Any) -> Tensor:
        """Return features of the shape of x; ``arguments`` are passed to the attention."""
        x = self.attention(x, graph, **arguments)
        out: Tensor = self.feed_forward(x)
        return out


class TransformerLayer(AttentionBlock):
    """Transformer layer: multi-head attention, then a feed-forward network.

    On the complete graph, the layer is ``torch.nn.TransformerEncoderLayer``. On the causal graph,
    it is a layer of GPT. On the bonds of molecules, with batch norm, it is a layer of the graph
    Transformer (Dwivedi and Bresson, 2020).

    Args:
        width: feature size.
        heads: number of attention heads, a divisor of ``width``.
        ffn_dim: hidden size of the feed-forward network.
        act: name of the activation function of the feed-forward network.
        order: ``"post"`` or ``"pre"``: norm after or before each sublayer; see :class:`Residual`.
        norm: ``"layer"``, ``"batch"``, ``"rms"``, or a function that returns a norm for ``width``.
        dropout: dropout rate of attention weights, hidden features and sublayer outputs.
        ffn_dropout: dropout rate of the hidden features of the feed-forward network, if it differs.
        options: arguments ``score``, ``normaliser``, ``projections`` and ``rotary`` of
            :class:`~edgewise.layers.MultiHeadAttention`.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> layer = layers.TransformerLayer(32, heads=4, ffn_dim=64)
        >>> layer(torch.randn(2, 10, 32), graphs.window(2)).shape
        torch.Size([2, 10, 32])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        ffn_dim: int,
        *,
        act: str = "relu",
        order: Order = "post",
        norm: Norm = "layer",
        dropout: float = 0.0,
        ffn_dropout: float | None = None,
        **options: Unpack[AttentionOptions],
    ) -> None:
        attention = MultiHeadAttention(width, heads, dropout=dropout, **options)
        hidden_dropout = dropout if ffn_dropout is None else ffn_dropout
        network = FeedForward(width, ffn_dim, act=act, dropout=hidden_dropout)
        super().__init__(attention, network, width, order=order, norm=norm, dropout=dropout)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        graph: Pattern,
        *,
        positions: Tensor | None = None,
        cache: Cache | None = None,
        bias: EdgeTerm | None = None,
        gain: EdgeTerm | None = None,
        edge_key: EdgeVector | None = None,
        edge_value: EdgeVector | None = None,
    ) -> Tensor:
        """Return features of the shape of x; the arguments are those of the attention."""
        x = self.attention(
            x,
            graph,
            positions=positions,
            cache=cache,
            bias=bias,
            gain=gain,
            edge_key=edge_key,
            edge_value=edge_value,
        )
        out: Tensor = self.feed_forward(x)
        return out


class CrossBlock(GraphLayer):
    """Decoder layer with any attention modules: self-attention, cross-attention, then an FFN.

    Args:
        attention: self-attention of the targets, called as ``attention(x, graph, cache=, ...)``.
        cross: cross-attention, called as ``cross(x, source_graph, source, bias=, cache=)``.
        feed_forward: called as ``feed_forward(x)``.
        width: feature size.
        residual: arguments ``order``, ``norm`` and ``dropout`` of :class:`Residual`.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> attention = layers.MultiHeadAttention(16, heads=2)
        >>> cross = layers.MultiHeadAttention(16, heads=2, source_width=16)
        >>> block = layers.CrossBlock(attention, cross, layers.FeedForward(16, 32), 16)
        >>> x, source = torch.randn(5, 16), torch.randn(7, 16)
        >>> block(x, graphs.causal(), source=source, source_graph=graphs.complete()).shape
        torch.Size([5, 16])
    """

    def __init__(
        self,
        attention: nn.Module,
        cross: nn.Module,
        feed_forward: nn.Module,
        width: int,
        **residual: Unpack[ResidualOptions],
    ) -> None:
        super().__init__()
        self.attention = Residual(attention, width, **residual)
        self.feed_forward = Residual(feed_forward, width, **residual)
        self.cross = Residual(cross, width, **residual)

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        source: Tensor,
        source_graph: Pattern,
        source_bias: EdgeTerm | None = None,
        cache: Cache | None = None,
        **arguments: Any,
    ) -> Tensor:
        """Return features ``[..., N, width]`` of the same shape as x.

        Args:
            x: features of the targets.
            graph: attention graph of the targets.
            source: features ``[..., S, width]`` of the other sequence.
            source_graph: attention graph from the source to the targets.
            source_bias: bias of the edges of ``source_graph``, -inf at padding of the source.
            cache: keys and values of earlier targets, and of the source.
            arguments: further arguments of the self-attention.
        """
        x = self.attention(x, graph, cache=cache, **arguments)
        x = self.cross(x, source_graph, source, bias=source_bias, cache=cache)
        out: Tensor = self.feed_forward(x)
        return out


class DecoderLayer(CrossBlock):
    """Transformer decoder layer; on a causal graph it is ``torch.nn.TransformerDecoderLayer``.

    The arguments are those of :class:`TransformerLayer`.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> layer = layers.DecoderLayer(32, heads=4, ffn_dim=64)
        >>> encoded = torch.randn(2, 7, 32)
        >>> causal, complete = graphs.causal(), graphs.complete()
        >>> layer(torch.randn(2, 10, 32), causal, source=encoded, source_graph=complete).shape
        torch.Size([2, 10, 32])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        ffn_dim: int,
        *,
        act: str = "relu",
        order: Order = "post",
        norm: Norm = "layer",
        dropout: float = 0.0,
        **options: Unpack[AttentionOptions],
    ) -> None:
        attention = MultiHeadAttention(width, heads, dropout=dropout, **options)
        options["rotary"] = None  # Positions of source and target are not comparable.
        cross = MultiHeadAttention(width, heads, source_width=width, dropout=dropout, **options)
        network = FeedForward(width, ffn_dim, act=act, dropout=dropout)
        super().__init__(attention, cross, network, width, order=order, norm=norm, dropout=dropout)


class TransformerStack(GraphLayer):
    """Transformer layers that share a graph, and a final norm.

    Args:
        layers: layers called as ``layer(x, graph, ...)``.
        norm: final norm; ``nn.Identity()`` if the layers end with a norm.
        graph: default attention pattern.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from edgewise import graphs, layers
        >>> blocks = [layers.TransformerLayer(32, 4, 64) for _ in range(2)]
        >>> stack = layers.TransformerStack(blocks, nn.Identity(), graphs.window(2))
        >>> stack(torch.randn(10, 32)).shape
        torch.Size([10, 32])
    """

    def __init__(self, layers: Sequence[nn.Module], norm: nn.Module, graph: Pattern) -> None:
        super().__init__()
        self.layers, self.norm, self.graph = nn.ModuleList(layers), norm, check_graph(graph)

    def forward(self, x: Tensor, graph: Pattern | None = None, **arguments: Any) -> Tensor:
        """Return features ``[..., N, width]`` from x of the same shape.

        ``graph`` replaces the default pattern. ``arguments`` are further arguments of each layer,
        such as those of :class:`TransformerLayer`.
        """
        graph = self.graph if graph is None else graph
        if not isinstance(graph, Pattern):
            check_graph(graph)  # Raises the error.
        for layer in self.layers:
            x = layer(x, graph, **arguments)
        out: Tensor = self.norm(x)
        return out
