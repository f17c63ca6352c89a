"""Multi-head attention over any graph, in both of the forms that are taught."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, TypeGuard, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from edgewise.attention import attend, attend_joint
from edgewise.biases import EdgeTerms
from edgewise.errors import ArgumentError
from edgewise.graphs import Pattern
from edgewise.layers.cache import Cache, KeyValue
from edgewise.layers.scores import LearnedScore, ScaledDot
from edgewise.layers.sequential import GraphLayer
from edgewise.scores import DOT, Dot, Score


class LayerTerms(EdgeTerms, total=False):
    """What a Transformer layer may be called with besides features and a graph."""

    positions: Tensor | None
    cache: Cache | None


class MultiHeadAttention(GraphLayer):
    r"""Attention in several heads, :math:`O\,[\mathrm{head}_1; \dots; \mathrm{head}_H]`.

    .. math:: \mathrm{head}_h = \mathrm{attend}(Q_h x,\; K_h s,\; V_h s,\; \mathrm{graph})

    where s is x (self-attention) or ``source`` (cross-attention). On the complete graph this is
    ``torch.nn.MultiheadAttention`` (Vaswani et al., 2017).

    Args:
        width: of the targets' features and of the output.
        heads: H, a divisor of ``width`` where ``head_width`` is not given.
        source_width: of the sources' features, where it differs.
        head_width: D, of a query and a key; ``width / heads`` by default.
        key_heads: a divisor of H; as many heads of keys and values, each for a group of queries
            (Ainslie et al., 2023).
        projections: ``"full"``: every head projects the whole input; ``"split"``: the input is
            split into H parts, and head h sees part h alone, with H times fewer weights.
        score: how queries and keys are compared; a :class:`LearnedScore` has weights of its own.
        rotary: turns queries and keys by their positions; :class:`edgewise.encodings.Rotary`.
        dropout: on the attention weights, in training.
        bias: whether the projections have one.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        source_width: int | None = None,
        head_width: int | None = None,
        key_heads: int | None = None,
        projections: Literal["full", "split"] = "full",
        score: Score | LearnedScore = DOT,
        rotary: nn.Module | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        key_heads, source_width = key_heads or heads, source_width or width
        if head_width is None:
            check_divides("heads", heads, width, "the width")
        check_divides("key_heads", key_heads, heads, "the number of heads")
        head_width = head_width or width // heads
        self.heads, self.dropout = heads, dropout
        self.score = DOT if isinstance(score, ScaledDot) else score  # a module without weights
        self.rotary, self.head_width, self.groups = rotary, head_width, heads // key_heads
        maps: list[Callable[..., nn.Module]] = [nn.Linear, nn.Linear]
        if projections == "split":
            maps = [partial(LinearByHead, count) for count in (heads, key_heads)]
        self.query = maps[0](width, heads * head_width, bias=bias)
        self.key = maps[1](source_width, key_heads * head_width, bias=bias)
        self.value = maps[1](source_width, key_heads * head_width, bias=bias)
        self.output = nn.Linear(heads * head_width, width, bias=bias)

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
        """``[..., N_dst, width]`` from x like that and source ``[..., N_src, source_width]``.

        Args:
            x: the targets' features.
            graph: who reads whom.
            source: the sources' features, x where not given.
            positions: ``[..., N_dst]``, for ``rotary``; after the cached ones by default.
            cache: holds keys and values of nodes before x, and receives those of x.
            edges: ``bias``, ``gain``, ``edge_key`` and ``edge_value`` of :func:`edgewise.attend`.
        """
        dropout = self.dropout if self.training else 0.0
        if source is None and cache is None and (joint := self._joint(x)) is not None:
            heads = attend_joint(joint, graph, score=self.score, dropout=dropout, **edges)
        else:
            query, key, value = self._query_key_value(x, source, positions, cache)
            score = self.score
            if isinstance(score, LearnedScore):
                query, key, score = score(query, key)
            heads = attend(query, key, value, graph, score=score, dropout=dropout, **edges)
        out: Tensor = self.output(heads.flatten(-2))
        return out

    def _joint(self, x: Tensor) -> Tensor | None:
        """Query, key and value of x by one product, ``[..., N, 3, H, D]``, where that is faster.

        So it is in training, where it has one gradient of x and not three, unless x is smaller
        than the weights, which are joined for it in each step.
        """
        maps = [m for m in (self.query, self.key, self.value) if _is_plain(m)]
        as_they_are = len(maps) == 3 and self.groups == 1 and self.rotary is None
        if not (as_they_are and isinstance(self.score, Dot) and torch.is_grad_enabled()):
            return None
        alike = len({(m.weight.shape, m.bias is None) for m in maps}) == 1
        weights = [m.weight for m in maps]
        if not alike or x.numel() < 3 * weights[0].numel():
            return None
        bias = None if maps[0].bias is None else torch.cat([m.bias for m in maps])
        heads = F.linear(x, torch.cat(weights), bias)
        return heads.view(*heads.shape[:-1], 3, self.heads, self.head_width)

    def _query_key_value(
        self, x: Tensor, source: Tensor | None, positions: Tensor | None, cache: Cache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        query = self._heads(self.query, x)
        if source is not None:
            key, value = (
                self._key_value(source)
                if cache is None
                else cache.once(self, lambda: self._key_value(source))
            )
        else:
            key, value = self._key_value(x)
            if self.rotary is not None:
                if positions is None and cache is not None:
                    positions = torch.arange(x.shape[-2], device=x.device) + cache.length
                query, key = self.rotary(query, positions), self.rotary(key, positions)
            if cache is not None:
                key, value = cache.extended(self, (key, value))
        if self.groups > 1:
            key, value = (x.repeat_interleave(self.groups, dim=-2) for x in (key, value))
        return query, key, value

    def _heads(self, project: nn.Module, x: Tensor) -> Tensor:
        heads: Tensor = project(x)  # unflatten takes far longer than reshape
        count = heads.shape[-1] // self.head_width
        return heads.reshape(*heads.shape[:-1], count, self.head_width)

    def _key_value(self, source: Tensor) -> KeyValue:
        return self._heads(self.key, source), self._heads(self.value, source)


def _is_plain(project: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a map is its weight and bias and nothing else: no adapter, no hook."""
    own = project._forward_hooks or project._forward_pre_hooks
    own = own or project._backward_hooks or project._backward_pre_hooks
    patched = own or "forward" in project.__dict__ or _has_any_global_hook()
    return type(project) is nn.Linear and not patched


def check_divides(name: str, part: int, whole: int, what: str) -> None:
    """Refuse parts that do not go into the whole, such as heads into a width."""
    if part < 1 or whole % part:
        raise ArgumentError(
            name,
            expected=f"a divisor of {what} {whole}",
            got=repr(part),
            remedy="change heads or width",
        )


class LinearByHead(nn.Module):
    """H independent linear maps, the h-th from part h of the input to part h of the output."""

    def __init__(self, heads: int, in_width: int, out_width: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, out_width // heads, in_width // heads))
        self.bias = nn.Parameter(torch.zeros(out_width)) if bias else None
        bound = math.sqrt(heads / in_width)  # as nn.Linear, for the width that each head sees
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        parts = x.unflatten(-1, (self.weight.shape[0], -1))
        out = torch.einsum("...hi,hoi->...ho", parts, self.weight).flatten(-2)
        return out if self.bias is None else out + self.bias
