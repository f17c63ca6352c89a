"""Adaptive span: each head of a causal language model learns how far back it reads.

Formula: w_ij ∝ m(i - j) exp(s_ij), m(x) = min(max((R + z - x) / R, 0), 1), z of each head learned
Graph: ``causal() & window(r)``, an r for the heads whose m is 0 beyond it
Score: Dot (scaled) of turned queries and keys, full projections
Encoding: rotary, in every layer (the paper adds a vector for each distance to the key)
Normalisation: softmax over the neighbourhood with log m as a bias; layer norm before each sublayer
Update: residual connection, then a feed-forward network (ReLU) with its own
Paper: Sukhbaatar et al., Adaptive attention span in Transformers, 2019
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from edgewise import attend
from edgewise.arguments import check_divides, checked
from edgewise.biases import add_terms
from edgewise.encodings import Rotary
from edgewise.encodings.relative import by_offset
from edgewise.errors import ArgumentError
from edgewise.graphs import Pattern, causal, check_graph, window
from edgewise.layers import (
    AttentionBlock,
    FeedForward,
    GraphLayer,
    LanguageModelHead,
    TextEmbedding,
    TextModel,
    init_normal,
)
from edgewise.layers.attention import JointLinear, unbind_qkv
from edgewise.layers.penalty import Penalised
from edgewise.layers.sequences import Memory, SequenceBatch

STEP = 16
"""Windows are a multiple of this, so that steps of training share their graphs."""


@checked(depth=0, begin=0, penalty=0)
def adaptive_span(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 512,
    span: int = 1024,
    ramp: int = 32,
    begin: int = 0,
    penalty: float = 2e-6,
    dropout: float = 0.1,
    graph: Pattern = causal(),  # noqa: B008 - patterns are immutable
) -> TextModel:
    """Build a causal language model whose attention heads learn their spans.

    ``model.logits(states)`` gives the logits of the next token at each position.
    ``model.reader.spans`` holds the learned spans of all layers and heads.

    Args:
        vocabulary: vocab size: number of token ids.
        width: hidden size.
        depth: number of layers.
        heads: number of attention heads per layer.
        feed_forward: FFN dimension: hidden size of the feed-forward networks.
        span: max span of a head in tokens.
        ramp: number of tokens over which weights fall from 1 to 0 beyond a head's span.
        begin: initial span of each head in tokens.
        penalty: weight of the spans in the training loss, λ (0 = none).
        dropout: dropout probability.
        graph: attention graph: which tokens each token attends to.
    """
    rotary = Rotary(width // heads)
    layers = [
        AttentionBlock(  # x + attention(norm(x)), then x + FFN(norm(x))
            SpanAttention(width, heads, rotary, span, ramp, begin=begin, dropout=dropout),
            FeedForward(width, feed_forward, dropout=dropout),
            width,
            order="pre",
            dropout=dropout,
        )
        for _ in range(depth)
    ]
    reader = AdaptiveSpanReader(layers, nn.LayerNorm(width), graph, penalty)
    embedding = TextEmbedding(vocabulary, width, dropout=dropout)
    head = LanguageModelHead(vocabulary, width)  # by the embedding's matrix
    return init_normal(TextModel(embedding, reader, head), residual_depth=depth)


class SpanAttention(GraphLayer):
    r"""Attention in heads of learned spans.

    .. math:: w_{ij} = \frac{m_z(i - j)\, e^{s_{ij}}}{\sum_k m_z(i - k)\, e^{s_{ik}}}, \qquad
              m_z(x) = \min(\max((R + z - x) / R, 0), 1)

    The mask is a bias by distance, log m. Heads whose masks reach equally far, in steps of
    ``STEP``, read in one call, and no pair beyond that is ever computed: what is left out is 0, and
    has no gradient.

    Args:
        width: of input and output.
        heads: a divisor of ``width``.
        rotary: turns queries and keys.
        span: S, the greatest span.
        ramp: R.
        begin: the span that each head begins with.
        dropout: on the attention weights, in training.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        rotary: nn.Module,
        span: int,
        ramp: int,
        *,
        begin: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        if begin > span:
            raise ArgumentError(
                "begin",
                expected=f"at most the greatest span, {span}",
                got=repr(begin),
                remedy="choose a larger span, or begin with less",
            )
        self.heads, self.dropout = heads, dropout
        self.span, self.ramp, self.rotary = span, ramp, rotary
        self.qkv = JointLinear(width, (width, width, width))
        self.output = nn.Linear(width, width)
        self.share = nn.Parameter(torch.full((heads,), begin / span))  # z / S

    @property
    def spans(self) -> Tensor:
        """Z of each head in tokens, ``[H]``, with a gradient at both ends of its range, too."""
        inside = self.share.clamp(0, 1).detach()
        return self.span * (inside + (self.share - self.share.detach()))

    def mask(self, distance: Tensor) -> Tensor:
        """M of each distance and head, ``[..., H]``."""
        return ((self.ramp + self.spans - distance[..., None]) / self.ramp).clamp(0, 1)

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        sequences: SequenceBatch,
        radii: Sequence[int] | None = None,
    ) -> Tensor:
        """``[..., N, width]`` from x of that shape.

        Args:
            x: features.
            graph: who may read whom, were no span too short.
            sequences: padding, packing, positions and cache.
            radii: how far each head reads, where :func:`radii_of` all layers are known.
        """
        if self.training:  # what the last step has moved out of range is taken back
            self.share.data.clamp_(0, 1)  # data: of what a gradient may need nothing changes
        query, key, value = unbind_qkv(self.qkv(x), self.heads)
        query, key = (self.rotary(each, sequences.positions) for each in (query, key))
        radii = radii_of([self])[0] if radii is None else radii
        if sequences.cache is not None:
            key, value = sequences.cache.extended(self, (key, value))
        if sequences.cache is not None and graph == causal():  # others count from the first token
            sequences.cache.forget(self, max(radii))
        by_radius: dict[int, list[int]] = {}
        for head, radius in enumerate(radii):
            by_radius.setdefault(radius, []).append(head)
        parts, order = [], []
        for radius, heads in by_radius.items():
            order += heads
            own = sequences.bind(graph & window(radius), key.shape[-3])
            table = _log(self.mask(torch.arange(radius + 1, device=x.device)))
            of = query, key, value
            if len(by_radius) > 1:
                chosen = torch.tensor(heads, device=x.device)
                of = tuple(each.index_select(-2, chosen) for each in of)  # type: ignore[assignment]
                table = table.index_select(-1, chosen)
            by_distance = by_offset(
                own, ("span", radius), partial(_distance, radius), table.to(x.dtype)
            )
            bias = add_terms(by_distance, sequences.padding_bias(own, x))
            dropout = self.dropout if self.training else 0.0
            parts.append(attend(*of, own, bias=bias, dropout=dropout, layout="NHD"))
        out = parts[0]
        if len(parts) > 1:
            place = torch.tensor(order, device=x.device).argsort()
            out = torch.cat(parts, -2).index_select(-2, place)
        projected: Tensor = self.output(out.flatten(-2))
        return projected


def radii_of(layers: Sequence[SpanAttention]) -> list[list[int]]:
    """The greatest distance at which each head of each layer reads, up to a multiple of ``STEP``.

    Graphs are made of these on the host, which waits for them once.
    """
    if not layers or layers[0].share.is_meta:  # no numbers to look at
        return [[layer.span] * layer.heads for layer in layers]
    beyond = [(layer.spans.detach() + layer.ramp).ceil().long() for layer in layers]  # m is 0 there
    last = iter((torch.cat(beyond) - 1).tolist())
    return [
        [min(layer.span, math.ceil(next(last) / STEP) * STEP) for _ in range(layer.heads)]
        for layer in layers
    ]


def _distance(most: int, behind: Tensor) -> Tensor:
    return behind.abs().clamp(max=most)


def _log(mask: Tensor) -> Tensor:
    """-inf for 0, with no gradient there."""
    read = mask > 0
    return torch.where(read, mask.where(read, 1.0).log(), -torch.inf)


class AdaptiveSpanReader(Penalised):
    r"""Layers with spans, and the penalty :math:`λ \sum_\mathrm{layers} \frac 1 H \sum_h z_h`.

    Args:
        layers: blocks of :class:`SpanAttention`.
        norm: after the last.
        graph: who may read whom, where a call gives no other.
        weight: λ.
    """

    def __init__(
        self, layers: Sequence[AttentionBlock], norm: nn.Module, graph: Pattern, weight: float
    ) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm
        self.graph, self.weight = check_graph(graph), weight

    @property
    def spans(self) -> Tensor:
        """Z of each layer and head in tokens, ``[layers, H]``."""
        spans = [attention.spans for attention in self._attentions()]
        return torch.stack(spans) if spans else torch.zeros(0, 0)

    def _attentions(self) -> list[SpanAttention]:
        return [m for m in self.modules() if isinstance(m, SpanAttention)]

    def penalty(self) -> Tensor:
        return self.weight * self.spans.mean(-1).sum()

    def forward(
        self,
        x: Tensor,
        sequences: SequenceBatch | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """States of x, of its shape.

        Args:
            x: features ``[B, T, width]``, or ``[N, width]`` of a packed batch.
            sequences: padding, packing, positions and cache.
            graph: who may read whom, in place of the reader's own.
            memory: none.
        """
        sequences = sequences or SequenceBatch.of_features(x)
        if memory is not None:
            raise ArgumentError(
                "memory",
                expected="None, as adaptive_span reads one text",
                got=type(memory).__name__,
                remedy="use transformer for a pair of texts",
            )
        pattern = self.graph if graph is None else check_graph(graph)
        x, sequences, back = sequences.without_padding(x, pattern)
        for layer, radii in zip(self.layers, radii_of(self._attentions()), strict=True):
            x = layer(x, pattern, sequences=sequences, radii=radii)
        sequences.advance()
        return back(self.norm(x))
