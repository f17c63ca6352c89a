"""Multi-head attention over any graph, in both of the forms that are taught."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal, TypedDict, Unpack

import torch
from torch import Tensor, nn

from edgewise.attention import DOT, attend
from edgewise.biases import EdgeTerm, EdgeVector
from edgewise.errors import ArgumentError
from edgewise.graphs import Pattern
from edgewise.layers.sequential import GraphLayer
from edgewise.scores import Score


class EdgeTerms(TypedDict, total=False):
    """What a caller may add on the edges; see :func:`edgewise.attend`."""

    bias: EdgeTerm | None
    gain: EdgeTerm | None
    edge_key: EdgeVector | None
    edge_value: EdgeVector | None


class MultiHeadAttention(GraphLayer):
    r"""Attention in several heads, :math:`O\,[\mathrm{head}_1; \dots; \mathrm{head}_H]`.

    .. math:: \mathrm{head}_h = \mathrm{attend}(Q_h x,\; K_h s,\; V_h s,\; \mathrm{graph})

    where s is x (self-attention) or ``source`` (cross-attention). On the complete graph this is
    ``torch.nn.MultiheadAttention`` (Vaswani et al., 2017).

    Args:
        width: of the targets' features and of the output.
        heads: H, a divisor of ``width``.
        source_width: of the sources' features, where it differs.
        projections: ``"full"``: every head projects the whole input; ``"split"``: the input is
            split into H parts, and head h sees part h alone, with H times fewer weights.
        score: how queries and keys are compared.
        dropout: on the attention weights, in training.
        bias: whether the projections have one.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        source_width: int | None = None,
        projections: Literal["full", "split"] = "full",
        score: Score = DOT,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ArgumentError(
                "heads",
                expected=f"a divisor of the width {width}",
                got=repr(heads),
                remedy="change heads or width",
            )
        linear = nn.Linear if projections == "full" else partial(LinearByHead, heads)
        source_width = source_width or width
        self.heads, self.score, self.dropout = heads, score, dropout
        self.query = linear(width, width, bias=bias)
        self.key = linear(source_width, width, bias=bias)
        self.value = linear(source_width, width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def forward(
        self, x: Tensor, graph: Pattern, source: Tensor | None = None, **edges: Unpack[EdgeTerms]
    ) -> Tensor:
        """``[..., N_dst, width]`` from x like that and source ``[..., N_src, source_width]``."""
        source = x if source is None else source
        query, key, value = (
            project(features).unflatten(-1, (self.heads, -1))
            for project, features in ((self.query, x), (self.key, source), (self.value, source))
        )
        dropout = self.dropout if self.training else 0.0
        heads = attend(query, key, value, graph, score=self.score, dropout=dropout, **edges)
        out: Tensor = self.output(heads.flatten(-2))
        return out


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
