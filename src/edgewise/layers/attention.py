"""Multi-head attention over a graph, with full or per-head projections."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, Unpack, get_args

import torch
from torch import Tensor, nn

from edgewise.arguments import check_choice, check_divides
from edgewise.attention import attend
from edgewise.biases import EdgeTerms
from edgewise.edge_steps import attention_weights
from edgewise.engines.call import for_each_query
from edgewise.errors import ArgumentError
from edgewise.graphs import Pattern
from edgewise.layers.cache import Cache, KeyValue
from edgewise.layers.normalisers import LearnedEntmax, layer_normaliser
from edgewise.layers.pruning import kept_groups, rows_of_heads, select, term_of_heads
from edgewise.layers.scores import LearnedScore, ScaledDot, learned_score
from edgewise.layers.sequential import GraphLayer
from edgewise.normalisers import Normaliser
from edgewise.scores import DOT, Score
from edgewise.torch_internals import in_functorch_transform, is_tracing

Projections = Literal["full", "split"]


class LayerTerms(EdgeTerms, total=False):
    """Optional keyword arguments of a Transformer layer."""

    positions: Tensor | None
    cache: Cache | None


class MultiHeadAttention(GraphLayer):
    r"""Multi-head attention over a graph, :math:`O\,[\mathrm{head}_1; \dots; \mathrm{head}_H]`.

    .. math:: \mathrm{head}_h = \mathrm{attend}(Q_h x,\; K_h s,\; V_h s,\; \mathrm{graph})

    Here s is x (self-attention) or another sequence (cross-attention). On the complete graph this
    is ``torch.nn.MultiheadAttention`` (Vaswani et al., 2017).

    Self-attention has one joint projection ``qkv``. Cross-attention and split projections have
    ``query``, ``key`` and ``value``.

    Args:
        width: feature size of targets and outputs.
        heads: number of heads H, a divisor of ``width`` unless ``head_width`` is given.
        source_width: feature size of the sources, for cross-attention; ``None`` for self-attention.
        head_width: head size D; ``width / heads`` by default.
        key_heads: number of key and value heads, a divisor of H. Each serves a group of query heads
            (grouped-query attention, Ainslie et al., 2023).
        projections: ``"full"``: each head projects all features; ``"split"``: head h projects the
            h-th of H parts of the features, with H times fewer weights.
        score: score function: a name of :data:`edgewise.layers.SCORES`, a :class:`LearnedScore`, or
            a score of :func:`edgewise.attend`.
        normaliser: normaliser of :func:`edgewise.attend`, or ``"learned"`` for α-entmax with a
            learned α for each head.
        rotary: rotary encoding of queries and keys, such as :class:`edgewise.encodings.Rotary`.
        dropout: dropout rate of attention weights.
        bias: whether projections have biases.
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
        check_divides("key_heads", key_heads, heads, "the number of heads", "change one of them")
        check_choice("projections", projections, get_args(Projections))
        self.heads, self.key_heads = heads, key_heads
        self.head_width = head_width or width // heads
        if isinstance(score, str):
            score = learned_score(score, heads, self.head_width)
        self.score = DOT if isinstance(score, ScaledDot) else score  # has no weights
        self.normaliser = layer_normaliser(normaliser, heads)
        self.rotary, self.dropout, self.source_width = rotary, dropout, source_width

        queries, keys = heads * self.head_width, key_heads * self.head_width
        read = width if source_width is None else source_width
        if projections == "split":
            self.query: nn.Module = LinearByHead(heads, width, queries, bias=bias)
            self.key: nn.Module = LinearByHead(key_heads, read, keys, bias=bias)
            self.value: nn.Module = LinearByHead(key_heads, read, keys, bias=bias)
        elif source_width is not None:
            self.query = nn.Linear(width, queries, bias=bias)
            self.key = nn.Linear(read, keys, bias=bias)
            self.value = nn.Linear(read, keys, bias=bias)
        self.qkv: JointLinear | None = None
        if projections == "full" and source_width is None:
            self.qkv = JointLinear(width, (queries, keys, keys), bias=bias)
        self.output = nn.Linear(queries, width, bias=bias)
        self.kept_heads: list[int] | None = None

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        source: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        cache: Cache | None = None,
        **edges: Unpack[EdgeTerms],
    ) -> Tensor:
        """Return outputs ``[..., N_dst, width]``.

        Args:
            x: features of the targets, ``[..., N_dst, width]``.
            graph: attention graph or pattern.
            source: features of the sources ``[..., N_src, source_width]``; cross-attention only.
            positions: positions ``[..., N_dst]`` for ``rotary``; by default they continue the
                cache.
            cache: keys and values of earlier nodes; those of x are added to it.
            edges: ``bias``, ``gain``, ``edge_key`` and ``edge_value`` of :func:`edgewise.attend`.

        Raises:
            ArgumentError: ``source`` is given to self-attention, or missing in cross-attention.
        """
        dropout = self.dropout if self.training else 0.0
        query, key, value, score = self._project(x, source, positions, cache)
        if self.kept_heads is not None:
            edges = self._of_kept_heads(edges)
        heads = attend(
            query,
            key,
            value,
            graph,
            score=score,
            dropout=dropout,
            normaliser=self._normaliser(),
            layout="NHD",
            **edges,
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
        **edges: Unpack[EdgeTerms],
    ) -> Tensor:
        """Return attention weights ``[..., E, H]`` in the order of ``graph.edge_index``.

        The arguments are those of a call. The weights of each target sum to 1 in each head.
        """
        query, key, _, score = self._project(x, source, positions, None)
        if self.kept_heads is not None:
            edges = self._of_kept_heads(edges)
        by = self._normaliser()
        return attention_weights(query, key, graph, score=score, normaliser=by, **edges)

    @property
    def can_keep_heads(self) -> bool:
        """Whether heads can be removed.

        They cannot with split projections, where each head has a part of the features, nor in
        subclasses with a computation of their own.
        """
        split = isinstance(getattr(self, "query", None), LinearByHead)
        return not split and type(self).forward is MultiHeadAttention.forward

    def keep_heads(self, heads: Sequence[int]) -> None:
        """Remove all other heads from the projections, in place, if :attr:`can_keep_heads`.

        Edge terms of a call keep the number of heads that the layer was built with.

        Args:
            heads: indices of the heads to keep, as numbered when the layer was built.

        Raises:
            ArgumentError: a head does not exist or was removed before, none is left, or groups of
                grouped-query attention become unequal.
        """
        known = list(range(self.heads)) if self.kept_heads is None else self.kept_heads
        heads = sorted({int(head) for head in heads})
        if not heads or not set(heads) <= set(known):
            raise ArgumentError(
                "heads",
                expected=f"at least one of the heads {', '.join(map(str, known))}",
                got=", ".join(map(str, heads)) or "none",
                remedy="keep at least one head of the layer",
            )
        places = [known.index(head) for head in heads]
        groups = kept_groups(places, self.heads, self.key_heads, type(self).__name__)
        queries = rows_of_heads(places, self.head_width)
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
        learned = [part for part in (self.score, self.normaliser) if isinstance(part, nn.Module)]
        for part in learned:  # all of their parameters have the heads first
            for name, parameter in list(part.named_parameters()):
                setattr(part, name, select(parameter, torch.tensor(places)))
        self.heads, self.key_heads, self.kept_heads = len(heads), len(groups), heads

    def _of_kept_heads(self, edges: EdgeTerms) -> EdgeTerms:
        assert self.kept_heads is not None
        dims = {"bias": -1, "gain": -1, "edge_key": -2, "edge_value": -2}
        chosen: Any = {n: term_of_heads(x, self.kept_heads, dims[n]) for n, x in edges.items()}
        return chosen  # type: ignore[no-any-return]

    def _normaliser(self) -> Normaliser:
        """Return the normaliser of this call."""
        given = self.normaliser
        return given() if isinstance(given, LearnedEntmax) else given

    def _project(
        self, x: Tensor, source: Tensor | None, positions: Tensor | None, cache: Cache | None
    ) -> tuple[Tensor, Tensor, Tensor, Score]:
        """Return query, key and value of all heads, and the score function."""
        self._check_source(source)
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
        """Return query, key and value of self-attention, cached nodes first."""
        if self.qkv is not None and self.key_heads == self.heads:
            query, key, value = unbind_qkv(self.qkv(x), self.heads)
        elif self.qkv is not None:
            parts = self.qkv(x).split(self.qkv.widths, dim=-1)
            query, key, value = (self._heads(part) for part in parts)
        else:
            parts = self.query(x), self.key(x), self.value(x)
            query, key, value = (self._heads(part) for part in parts)
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
        """Return query, key and value of cross-attention; a cache keeps the first key and value."""

        def key_value() -> KeyValue:
            return self._heads(self.key(source)), self._heads(self.value(source))

        query = self._heads(self.query(x))
        key, value = key_value() if cache is None else cache.once(self, key_value)
        return query, key, value

    def _heads(self, x: Tensor) -> Tensor:
        """Reshape ``[..., N, heads * D]`` to ``[..., N, heads, D]``."""
        # reshape takes much less time than unflatten.
        return x.reshape(*x.shape[:-1], x.shape[-1] // self.head_width, self.head_width)

    def _check_source(self, source: Tensor | None) -> None:
        if (source is None) == (self.source_width is None):
            return
        raise ArgumentError(
            "source",
            expected="the features to read" if source is None else "none for self-attention",
            got="none" if source is None else f"features of shape {list(source.shape)}",
            remedy="make the layer with source_width= for cross-attention, and without it for "
            "self-attention",
        )


class JointLinear(nn.Linear):
    """Several linear maps of the same features, stored as one matrix, with concatenated outputs.

    One matrix product takes less time than several. Each part is initialised as a map of its own.

    Args:
        in_width: feature size.
        widths: output size of each part.
        bias: whether the maps have biases.
    """

    def __init__(self, in_width: int, widths: Sequence[int], *, bias: bool = True) -> None:
        self.widths = tuple(widths)
        super().__init__(in_width, sum(widths), bias=bias)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise the parts one after the other, as ``torch.nn.Linear`` does."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        biases = [None] * len(self.widths) if self.bias is None else self.bias.split(self.widths)
        for weight, bias in zip(self.weights(), biases, strict=True):
            nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
            if bias is not None:
                nn.init.uniform_(bias, -bound, bound)

    def keep_rows(self, rows: Sequence[Tensor]) -> None:
        """Keep only some rows of each part, in place."""
        starts = itertools.accumulate(self.widths, initial=0)
        index = torch.cat([part + start for part, start in zip(rows, starts, strict=False)])
        self.weight, self.bias = select(self.weight, index), select(self.bias, index)
        self.widths, self.out_features = tuple(map(len, rows)), len(index)

    def weights(self) -> tuple[Tensor, ...]:
        """Return the matrix ``[width, in_width]`` of each part, as views."""
        parts: tuple[Tensor, ...] = self.weight.split(self.widths)
        return parts


def unbind_qkv(joint: Tensor, heads: int) -> tuple[Tensor, ...]:
    """Split ``[..., N, 3 * H * D]`` into query, key and value ``[..., N, H, D]``.

    The backward pass joins the three gradients without a copy if an engine has written them side by
    side, as ``tiles`` does.
    """
    joint = joint.reshape(*joint.shape[:-1], 3, heads, joint.shape[-1] // (3 * heads))
    if not torch.is_grad_enabled() or is_tracing((joint,)) or in_functorch_transform():
        return joint.unbind(-3)
    parts: tuple[Tensor, ...] = _UnbindQKV.apply(joint)  # type: ignore[no-untyped-call]
    return parts


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
        beside = all(
            grad.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
            and grad.storage_offset() == first.storage_offset() + part * heads * width
            and grad.stride() == joint.select(-3, part).stride()
            for part, grad in enumerate(grads)
        )
        if beside and not torch.is_grad_enabled():
            return first.as_strided(joint.shape, joint.stride())
        return torch.stack(grads, -3)


class LinearByHead(nn.Module):
    r"""H independent linear maps, :math:`y = [W_1 x_1; \dots; W_H x_H] + b`, of H input parts."""

    def __init__(self, heads: int, in_width: int, out_width: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, out_width // heads, in_width // heads))
        self.bias = nn.Parameter(torch.zeros(out_width)) if bias else None
        bound = math.sqrt(heads / in_width)  # as nn.Linear with the input size of one head
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        parts = x.unflatten(-1, (self.weight.shape[0], -1))
        out = torch.einsum("...hi,hoi->...ho", parts, self.weight).flatten(-2)
        return out if self.bias is None else out + self.bias
