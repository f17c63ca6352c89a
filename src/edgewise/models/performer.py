"""Performer: linear-time approximation of softmax attention by positive random features.

Formula: o_i = φ(q_i) Σ_j φ(k_j) v_jᵀ / φ(q_i) Σ_j φ(k_j), with φ(x) = exp(W x - |x|² / 2) / √m
Graph: none; the sums over j cover the whole text, or j ≤ i if causal
Score: φ(q)·φ(k), whose mean over random W is exp(q·k); q and k are divided by D^¼
Encoding: learned absolute positions
Normalisation: by the sum of weights, as in softmax; layer norm before each sublayer
Update: residual connections around attention and around the feed-forward network (GELU)
Paper: Choromanski et al., Rethinking attention with Performers, 2021
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_divides
from edgewise.encodings import Learned
from edgewise.graphs import Pattern
from edgewise.layers import (
    Cache,
    FeedForward,
    LanguageModelHead,
    Residual,
    TextEmbedding,
    TextModel,
    init_normal,
)
from edgewise.layers.projections import JointLinear
from edgewise.layers.single_text import SingleTextBackbone, refuse_cache
from edgewise.layers.text import SequenceBatch
from edgewise.layers.transformer import unbind_qkv
from edgewise.models.text import TextConfig, text_model

CHUNK = 64
"""Chunk size of causal attention, in tokens. Only pairs within a chunk are computed one by one."""


@dataclass(frozen=True, kw_only=True)
class PerformerConfig(TextConfig):
    """Arguments of :func:`performer`.

    Args:
        features: number of random features per head, m.
        redraw_every: number of forward passes in training between resamplings of the random
            features (0 = never).
        causal: whether a token attends only to itself and earlier tokens.
        max_length: max length of a text in tokens, the number of learned positions.
    """

    features: int = 128
    redraw_every: int = 1000
    causal: bool = False
    max_length: int = 4096
    act: str = "gelu"


@text_model(PerformerConfig, depth=0, redraw_every=0)
def performer(config: PerformerConfig) -> TextModel:
    """Build a Performer language model.

    There is no dropout of attention weights, because these are never computed.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.performer(1000, features=32)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    width, dropout, causal = config.width, config.dropout, config.causal
    layers = [
        PerformerLayer(  # x + attention(norm(x)), then x + FFN(norm(x))
            PerformerAttention(
                width, config.heads, config.features, config.redraw_every, causal=causal
            ),
            FeedForward(width, config.ffn_dim, act=config.act, dropout=dropout),
            width,
            dropout=dropout,
        )
        for _ in range(config.depth)
    ]
    backbone = PerformerBackbone(layers, nn.LayerNorm(width), causal=causal)
    positions = Learned(config.max_length, width)
    embedding = TextEmbedding(config.vocab_size, width, positions=positions, dropout=dropout)
    head = LanguageModelHead(config.vocab_size, width)  # The head shares the embedding matrix.
    return init_normal(TextModel(embedding, backbone, head), residual_depth=config.depth)


def orthogonal_features(count: int, width: int, generator: torch.Generator | None = None) -> Tensor:
    """Sample W ``[count, width]``: Gaussian rows, orthogonal in each block of ``width`` rows."""
    blocks = -(-count // width)
    directions, upper = torch.linalg.qr(torch.randn(blocks, width, width, generator=generator))
    # Multiplied by the signs of R's diagonal, Q is uniform over the orthogonal group.
    directions = directions * upper.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
    lengths = torch.randn(count, width, generator=generator).norm(dim=-1, keepdim=True)
    features: Tensor = directions.transpose(-1, -2).reshape(-1, width)[:count] * lengths
    return features


class Sums(NamedTuple):
    """Sums over earlier keys: of φ(k) vᵀ and, in the last column, of φ(k), divided by
    exp(max_exponent), ``[B, H, m, Dv + 1]``; and the largest exponent of these keys, ``[B, H]``.
    """

    sums: Tensor
    max_exponent: Tensor


def linear_attention(query: Tensor, key: Tensor, max_exponent: Tensor, value: Tensor) -> Tensor:
    r"""Return :math:`φ(q_i) \sum_j φ(k_j) v_j^\top / φ(q_i) \sum_j φ(k_j)`, ``[B, T, H, Dv]``. Keys
    are divided by exp(max_exponent ``[B, T, H]``), which is -inf for padding.
    """
    if not max_exponent.numel():
        return value * 0
    shift = _finite(max_exponent.amax(1, keepdim=True))
    key = key * (max_exponent - shift).exp()[..., None]
    sums = torch.einsum("bthm,bthd->bhmd", key, append_one(value))
    return divide_by_last(torch.einsum("bthm,bhmd->bthd", query, sums))


def prefix_attention(
    query: Tensor, key: Tensor, max_exponent: Tensor, value: Tensor, past_sums: Sums | None = None
) -> tuple[Tensor, Sums]:
    """Return causal linear attention (sums over j ≤ i) and its sums, which are scaled by the
    largest exponent so far, so that a large later key cannot make them underflow.
    """
    sums, past_max = past_sums if past_sums is not None else _empty_sums(key, value)
    outputs = []
    inputs = (query, key, max_exponent, append_one(value))
    chunks = zip(*(x.split(CHUNK, 1) for x in inputs), strict=True)
    for q, k, exponent, v in chunks:
        running_max = torch.maximum(exponent.cummax(1).values, past_max[:, None])  # [B, t, H]
        shift = _finite(running_max)
        scores = torch.einsum("bihm,bjhm->bhij", q, k)
        scale = (exponent.transpose(1, 2)[:, :, None] - shift.transpose(1, 2)[..., None]).tril()
        future = torch.ones_like(scale[0, 0], dtype=torch.bool).triu(1)
        scores = scores * scale.exp().masked_fill(future, 0)
        within_chunk = torch.einsum("bhij,bjhd->bihd", scores, v)
        earlier = torch.einsum("bthm,bhmd->bthd", q, sums)
        outputs.append(within_chunk + earlier * (past_max[:, None] - shift).exp()[..., None])
        last_shift = shift[:, -1]
        k = k * (exponent - last_shift[:, None]).exp()[..., None]  # noqa: PLW2901
        sums = sums * (past_max - last_shift).exp()[..., None, None]
        sums = sums + torch.einsum("bthm,bthd->bhmd", k, v)
        past_max = running_max[:, -1]
    total = torch.cat(outputs, 1) if outputs else append_one(value)
    return divide_by_last(total), Sums(sums, past_max)


def _empty_sums(key: Tensor, value: Tensor) -> Sums:
    batch, _, heads, features = key.shape
    sums = value.new_zeros(batch, heads, features, value.shape[-1] + 1)
    return Sums(sums, value.new_full((batch, heads), -torch.inf))


def append_one(value: Tensor) -> Tensor:
    """Append a column of ones to the values; its weighted sum is the sum of the weights."""
    return torch.cat([value, value.new_ones(*value.shape[:-1], 1)], -1)


def divide_by_last(total: Tensor) -> Tensor:
    """Divide the columns by the last one, which is the sum of the weights, and drop the last."""
    tiny = torch.finfo(total.dtype).tiny
    return total[..., :-1] / total[..., -1:].clamp(min=tiny)


def _finite(exponent: Tensor) -> Tensor:
    """Replace exponents of -inf (no keys yet) by 0, because -inf minus -inf is NaN."""
    return exponent.masked_fill(exponent == -torch.inf, 0.0)


class PerformerAttention(nn.Module):
    r"""Attention by positive orthogonal random features (FAVOR+).

    .. math:: φ(x) = \frac{1}{\sqrt m} \exp\big(W x' - |x'|^2 / 2\big), \; x' = x / D^{1/4}, \qquad
              \mathrm{E}_W\, φ(q) \cdot φ(k) = e^{q \cdot k / \sqrt D}

    The largest exponents are subtracted before the exponential; they cancel in the output. If
    ``causal``, a cache stores sums over the keys, so its size does not grow with the text.
    """

    projection: Tensor
    calls: Tensor

    def __init__(
        self,
        width: int,
        heads: int,
        features: int,
        redraw_every: int = 0,
        *,
        causal: bool = False,
    ) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.heads, self.head_width, self.features = heads, width // heads, features
        self.redraw_every, self.causal = redraw_every, causal
        self.qkv = JointLinear(width, (width, width, width))
        self.output = nn.Linear(width, width)
        self.register_buffer("projection", orthogonal_features(features, self.head_width))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def redraw(self) -> None:
        """Resample the random projection W."""
        projection = orthogonal_features(self.features, self.head_width)
        self.projection = projection.to(self.projection)

    def feature_map(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return φ(x) without constant factors, divided by its largest entry, and its logarithm."""
        x = x * self.head_width**-0.25
        exponent = x @ self.projection.T - x.square().sum(-1, keepdim=True) / 2
        max_exponent = exponent.detach().amax(-1)
        return (exponent - max_exponent[..., None]).exp(), max_exponent

    def forward(
        self, x: Tensor, *, real: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Return features ``[B, T, width]`` from x of the same shape."""
        # A call with meta tensors computes nothing, so it does not count as a step.
        if self.training and self.redraw_every and not x.is_meta:
            if self.calls and self.calls % self.redraw_every == 0:
                self.redraw()
            self.calls += 1
        query, key, value = unbind_qkv(self.qkv(x), self.heads)
        (query, _), (key, max_exponent) = self.feature_map(query), self.feature_map(key)
        if real is not None:
            max_exponent = max_exponent.masked_fill(~real[..., None], -torch.inf)
        if self.causal:
            state = cache.state(self) if cache is not None else None
            past_sums = None if state is None else Sums(*state)
            out, sums = prefix_attention(query, key, max_exponent, value, past_sums)
            if cache is not None:
                cache.keep_state(self, sums)
        else:
            out = linear_attention(query, key, max_exponent, value)
        projected: Tensor = self.output(out.flatten(-2))
        return projected


class PerformerLayer(nn.Module):
    """Pre-norm block of attention and a feed-forward network."""

    def __init__(
        self, attention: nn.Module, feed_forward: nn.Module, width: int, *, dropout: float
    ) -> None:
        super().__init__()
        self.attention = Residual(attention, width, order="pre", dropout=dropout)
        self.feed_forward = Residual(feed_forward, width, order="pre", dropout=dropout)

    def forward(self, x: Tensor, real: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """Return features ``[B, T, width]`` from x of the same shape."""
        x = self.attention(x, real=real, cache=cache)
        out: Tensor = self.feed_forward(x)
        return out


class PerformerBackbone(SingleTextBackbone):
    """Stack of Performer layers over padded texts."""

    name = "performer"

    def __init__(self, layers: Sequence[nn.Module], norm: nn.Module, *, causal: bool) -> None:
        super().__init__()
        self.layers, self.norm, self.caches = nn.ModuleList(layers), norm, causal

    def run(self, x: Tensor, sequences: SequenceBatch, _graph: Pattern | None) -> Tensor:
        if sequences.has_padding:
            refuse_cache(self.name, sequences)
        rows, real, back = sequences.right_padded(x)
        for layer in self.layers:
            rows = layer(rows, real, sequences.cache)
        sequences.advance()
        return back(self.norm(rows))
