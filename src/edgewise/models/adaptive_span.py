"""Adaptive span: a causal language model whose attention heads learn how far back they attend.

Formula: w_ij ∝ m(i - j) exp(s_ij), m(x) = min(max((R + z - x) / R, 0), 1), with z learned per head
Graph: ``causal() & window(r)``, where m is 0 at distances above r, or r is the max span; heads with
    equal r share a graph
Score: ``Dot`` (scaled dot product) of rotated queries and keys; each head projects all features
Encoding: rotary, in every layer (the paper adds relative position vectors to the keys)
Normalisation: softmax over the neighbourhood with log m as a bias; layer norm before each sublayer
Update: residual connections around attention and around the feed-forward network (ReLU)
Paper: Sukhbaatar et al., Adaptive attention span in Transformers, 2019
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from edgewise import attend
from edgewise._utils.arguments import check_divides
from edgewise._utils.errors import ArgumentError
from edgewise._utils.torch_internals import in_functorch_transform
from edgewise.attention.biases import add_terms
from edgewise.encodings import Rotary
from edgewise.encodings.relative import by_offset
from edgewise.graphs import Pattern, causal, check_graph, window
from edgewise.graphs.graph import call_for_graph
from edgewise.layers import (
    AttentionBlock,
    FeedForward,
    GraphLayer,
    LanguageModelHead,
    TextEmbedding,
    TextModel,
    add_penalty,
    init_normal,
)
from edgewise.layers.projections import JointLinear
from edgewise.layers.single_text import SingleTextBackbone
from edgewise.layers.text import SequenceBatch
from edgewise.layers.transformer import unbind_qkv
from edgewise.models.text import TextConfig, text_model

STEP = 16
"""Window radii in tokens are rounded up to a multiple of ``STEP``, so that graphs can be reused."""


@dataclass(frozen=True, kw_only=True)
class AdaptiveSpanConfig(TextConfig):
    """Arguments of :func:`adaptive_span`.

    Args:
        span: max span of a head in tokens, beyond which no head attends.
        ramp: number of tokens beyond a head's span over which the mask falls from 1 to 0.
        begin: initial span of each head, in tokens.
        penalty: weight λ in the training loss of the mean span of the heads in tokens, summed over
            the layers (0 = none).
    """

    span: int = 1024
    ramp: int = 32
    begin: int = 0
    penalty: float = 2e-6
    graph: Pattern = causal()


@text_model(AdaptiveSpanConfig, depth=0, begin=0, penalty=0)
def adaptive_span(config: AdaptiveSpanConfig) -> TextModel:
    """Build a causal language model whose attention heads learn how far back they attend.

    The span of a head is the distance, in tokens, up to which its mask m is 1.
    ``model.backbone.spans`` holds the learned spans of all layers and heads.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.adaptive_span(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    width, heads, dropout = config.width, config.heads, config.dropout
    layers = [
        AttentionBlock(  # x + attention(norm(x)), then x + FFN(norm(x))
            SpanAttention(
                width,
                heads,
                Rotary(width // heads),
                config.span,
                config.ramp,
                begin=config.begin,
                dropout=dropout,
            ),
            FeedForward(width, config.ffn_dim, dropout=dropout),
            width,
            order="pre",
            dropout=dropout,
        )
        for _ in range(config.depth)
    ]
    backbone = AdaptiveSpanBackbone(layers, nn.LayerNorm(width), config.graph, config.penalty)
    embedding = TextEmbedding(config.vocab_size, width, dropout=dropout)
    head = LanguageModelHead(config.vocab_size, width)  # The head shares the embedding matrix.
    return init_normal(TextModel(embedding, backbone, head), residual_depth=config.depth)


class SpanAttention(GraphLayer):
    r"""Multi-head attention with a learned span z per head, at most S.

    .. math:: w_{ij} = \frac{m_z(|i - j|)\, e^{s_{ij}}}{\sum_k m_z(|i - k|)\, e^{s_{ik}}}, \qquad
              m_z(x) = \min(\max((R + z - x) / R, 0), 1)

    Heads whose masks reach equally far, rounded up to a multiple of ``STEP`` tokens, share one
    attention call on a window of that radius.
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
                expected=f"at most the argument span, {span}",
                got=repr(begin),
                remedy="choose a larger span, or a smaller begin",
            )
        self.heads, self.dropout = heads, dropout
        self.span, self.ramp, self.rotary = span, ramp, rotary
        self.qkv = JointLinear(width, (width, width, width))
        self.output = nn.Linear(width, width)
        self.share = nn.Parameter(torch.full((heads,), begin / span))  # z / S

    @property
    def spans(self) -> Tensor:
        """Span z of each head in tokens, ``[H]``, clamped to 0 … S. Gradients ignore the clamp."""
        clamped = self.share.clamp(0, 1).detach()
        return self.span * (clamped + (self.share - self.share.detach()))

    def mask(self, distance: Tensor) -> Tensor:
        """Return each head's soft mask m, from 0 to 1, ``[..., H]``, at distances ``[...]``."""
        return ((self.ramp + self.spans - distance[..., None]) / self.ramp).clamp(0, 1)

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        sequences: SequenceBatch,
        radii: Sequence[int] | None = None,
    ) -> Tensor:
        """Return features ``[..., N, width]`` from x of the same shape."""
        # An optimizer step may have moved the parameter out of [0, 1], so clamp it.
        if self.training:
            # Change .data, because autograd may have saved the parameter.
            self.share.data.clamp_(0, 1)
        query, key, value = unbind_qkv(self.qkv(x), self.heads)
        query, key = (self.rotary(tensor, sequences.positions) for tensor in (query, key))
        radii = radii_of([self])[0] if radii is None else radii
        if sequences.cache is not None:
            key, value = sequences.cache.extended(self, (key, value))
        # Another pattern may need any earlier position, so its cache keeps all positions.
        if sequences.cache is not None and graph == causal():
            sequences.cache.forget(self, max(radii))
        heads_by_radius: dict[int, list[int]] = {}
        for head, radius in enumerate(radii):
            heads_by_radius.setdefault(radius, []).append(head)
        outputs, head_order = [], []
        for radius, heads in heads_by_radius.items():
            head_order += heads
            pattern = call_for_graph(_in_window, graph, radius)
            bound = sequences.bind(pattern, key.shape[-3])
            table = _log(self.mask(torch.arange(radius + 1, device=x.device)))
            qkv = query, key, value
            if len(heads_by_radius) > 1:
                index = torch.tensor(heads, device=x.device)
                qkv = tuple(tensor.index_select(-2, index) for tensor in qkv)  # type: ignore[assignment]
                table = table.index_select(-1, index)
            span_bias = by_offset(
                bound, ("span", radius), partial(_distance, radius), table.to(x.dtype)
            )
            bias = add_terms(span_bias, sequences.padding_bias(bound, x))
            dropout = self.dropout if self.training else 0.0
            outputs.append(attend(*qkv, bound, bias=bias, dropout=dropout, layout="NHD"))
        out = outputs[0]
        if len(outputs) > 1:
            inverse = torch.tensor(head_order, device=x.device).argsort()
            out = torch.cat(outputs, -2).index_select(-2, inverse)
        projected: Tensor = self.output(out.flatten(-2))
        return projected


def radii_of(layers: Sequence[SpanAttention]) -> list[list[int]]:
    """Return the window radius of each head of each layer, in one transfer from the GPU."""
    unknown = in_functorch_transform() or torch.compiler.is_compiling()
    if not layers or layers[0].share.is_meta or unknown:  # There are no values to read.
        return [[layer.span] * layer.heads for layer in layers]
    # From these distances on, the soft mask m is 0.
    masked = [(layer.spans.detach() + layer.ramp).ceil().long() for layer in layers]
    reached = iter((torch.cat(masked) - 1).tolist())
    return [
        [min(layer.span, math.ceil(next(reached) / STEP) * STEP) for _ in range(layer.heads)]
        for layer in layers
    ]


def _in_window(graph: Pattern, radius: int) -> Pattern:
    return graph & window(radius)


def _distance(max_distance: int, offset: Tensor) -> Tensor:
    """Return the distance of each offset, at most ``max_distance``."""
    return offset.abs().clamp(max=max_distance)


def _log(mask: Tensor) -> Tensor:
    """Return the logarithm of the mask; it is -inf, without a gradient, where the mask is 0."""
    positive = mask > 0
    return torch.where(positive, mask.where(positive, 1.0).log(), -torch.inf)


class AdaptiveSpanBackbone(SingleTextBackbone):
    r"""Stack of layers; adds :math:`λ \sum_\mathrm{layers} \frac 1 H \sum_h z_h` to the loss."""

    name, takes_graph, caches = "adaptive_span", True, True
    reads_layers = True  # FSDP2 must gather the spans of all layers before the first one.

    def __init__(
        self, layers: Sequence[AttentionBlock], norm: nn.Module, graph: Pattern, weight: float
    ) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm
        self.graph, self.weight = check_graph(graph), weight

    @property
    def spans(self) -> Tensor:
        """Span z of each layer and head in tokens, ``[layers, H]``."""
        spans = [attention.spans for attention in self._attentions()]
        return torch.stack(spans) if spans else torch.zeros(0, 0)

    def _attentions(self) -> list[SpanAttention]:
        return [m for m in self.modules() if isinstance(m, SpanAttention)]

    def penalty(self) -> Tensor:
        """Return the penalty of the current spans, a scalar."""
        return self.weight * self.spans.mean(-1).sum()

    def run(self, x: Tensor, sequences: SequenceBatch, graph: Pattern | None) -> Tensor:
        pattern = self.graph if graph is None else check_graph(graph)
        if self.training and self.weight:
            add_penalty(self.penalty())
        x, sequences, back = sequences.without_padding(x, pattern)
        for layer, radii in zip(self.layers, radii_of(self._attentions()), strict=True):
            x = layer(x, pattern, sequences=sequences, radii=radii)
        sequences.advance()
        return back(self.norm(x))
