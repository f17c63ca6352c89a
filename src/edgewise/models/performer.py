"""Performer: softmax attention by positive random features, in time that grows with the text.

Formula: o_i = φ(q_i) Σ_j φ(k_j) v_jᵀ / φ(q_i) Σ_j φ(k_j), φ(x) = exp(W x - |x|² / 2) / √m; as GPT
Graph: none: tokens add to m rows, and read these; the sums run to all of the text, or up to i
Score: φ(q)·φ(k), whose mean over W is exp(q·k), q and k divided by D^¼
Encoding: learned absolute positions
Normalisation: by the sum, as softmax; layer norm before each sublayer
Update: residual connection, then a feed-forward network (GELU) with its own
Paper: Choromanski et al., Rethinking attention with Performers, 2021
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgewise.arguments import check_divides, checked
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
from edgewise.layers.attention import JointLinear, unbind_qkv
from edgewise.layers.sequences import (
    Memory,
    SequenceBatch,
    refuse_cache,
    refuse_graph,
    refuse_memory,
)

CHUNK = 64
"""Tokens whose pairs are computed one by one where sums run up to each token."""


@checked(depth=0, redraw_every=0)
def performer(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 512,
    features: int = 128,
    redraw_every: int = 1000,
    one_way: bool = False,
    length: int = 4096,
    act: str = "gelu",
    dropout: float = 0.1,
) -> TextModel:
    """Build a Performer language model.

    ``model.logits(states)`` gives the logits of the tokens. Dropout applies to the sublayer
    outputs, because there are no attention weights to drop.

    Args:
        vocabulary: vocab size: number of token ids.
        width: hidden size.
        depth: number of layers.
        heads: number of attention heads per layer.
        feed_forward: FFN dimension: hidden size of the feed-forward networks.
        features: number of random features per head, m.
        redraw_every: number of training steps between resamplings of the features (0 = never).
        one_way: causal attention: a token attends to itself and earlier tokens only.
        length: max length of a text in tokens: number of learned positions.
        act: activation function of the feed-forward networks, by name.
        dropout: dropout probability.
    """
    layers = [
        PerformerLayer(  # x + attention(norm(x)), then x + FFN(norm(x))
            PerformerAttention(width, heads, features, redraw_every, one_way=one_way),
            FeedForward(width, feed_forward, act=act, dropout=dropout),
            width,
            dropout=dropout,
        )
        for _ in range(depth)
    ]
    reader = PerformerReader(layers, nn.LayerNorm(width), one_way=one_way)
    embedding = TextEmbedding(vocabulary, width, positions=Learned(length, width), dropout=dropout)
    head = LanguageModelHead(vocabulary, width)  # by the embedding's matrix
    return init_normal(TextModel(embedding, reader, head), residual_depth=depth)


def orthogonal_features(count: int, width: int, generator: torch.Generator | None = None) -> Tensor:
    """W ``[count, width]``: rows as long as Gaussian ones, in blocks of orthogonal directions.

    Each row by itself is Gaussian. That those of a block are orthogonal makes the error smaller.
    """
    blocks = -(-count // width)
    directions, upper = torch.linalg.qr(torch.randn(blocks, width, width, generator=generator))
    # The signs of R make Q uniform among all rotations and reflections.
    directions = directions * upper.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
    lengths = torch.randn(count, width, generator=generator).norm(dim=-1, keepdim=True)
    drawn: Tensor = directions.transpose(-1, -2).reshape(-1, width)[:count] * lengths
    return drawn


class Sums(NamedTuple):
    """What a text leaves to what comes after it, whatever its length.

    Attributes:
        sums: ``[B, H, m, Dv + 1]``, of φ(k) times v, and times 1 beside it, over exp(most).
        most: ``[B, H]``, the greatest exponent of the keys so far.
    """

    sums: Tensor
    most: Tensor


def linear_attention(query: Tensor, key: Tensor, most: Tensor, value: Tensor) -> Tensor:
    r""":math:`φ(q_i) \sum_j φ(k_j) v_j^\top / φ(q_i) \sum_j φ(k_j)`, ``[B, T, H, Dv]``.

    Args:
        query: φ of it but for a factor, ``[B, T, H, m]``.
        key: φ of it over exp(most), ``[B, T, H, m]``.
        most: ``[B, T, H]``; -inf for padding, which is not read.
        value: ``[B, T, H, Dv]``.
    """
    if not most.numel():
        return value * 0
    key = key * (most - _finite(most.amax(1, keepdim=True))).exp()[..., None]
    sums = torch.einsum("bthm,bthd->bhmd", key, _with_one(value))
    return _quotient(torch.einsum("bthm,bhmd->bthd", query, sums))


def prefix_attention(
    query: Tensor, key: Tensor, most: Tensor, value: Tensor, before: Sums | None = None
) -> tuple[Tensor, Sums]:
    """The same over j up to i: sums of the chunks before, and of the own chunk pair by pair.

    Each token's sums are over the exponential of the greatest exponent up to that token, so that
    no later key makes them 0.

    Args:
        query: see :func:`linear_attention`.
        key: likewise.
        most: likewise.
        value: likewise.
        before: what the text before has left.
    """
    sums, above = before if before is not None else _nothing(key, value)
    parts = []
    given = (x.split(CHUNK, 1) for x in (query, key, most, _with_one(value)))
    for query, key, most, value in zip(*given, strict=True):  # noqa: PLR1704 - of a chunk
        # The greatest exponent up to each token, [B, t, H], the last of which the sums are over.
        highest = torch.maximum(most.cummax(1).values, above[:, None])
        shift = _finite(highest)
        pairs = torch.einsum("bihm,bjhm->bhij", query, key)
        shares = (most.transpose(1, 2)[:, :, None] - shift.transpose(1, 2)[..., None]).tril()
        unread = torch.ones_like(shares[0, 0], dtype=torch.bool).triu(1)
        near = torch.einsum("bhij,bjhd->bihd", pairs * shares.exp().masked_fill(unread, 0), value)
        far = torch.einsum("bthm,bhmd->bthd", query, sums)
        parts.append(near + far * (above[:, None] - shift).exp()[..., None])
        last = shift[:, -1]
        own = key * (most - last[:, None]).exp()[..., None]
        sums = sums * (above - last).exp()[..., None, None]
        sums = sums + torch.einsum("bthm,bthd->bhmd", own, value)
        above = highest[:, -1]
    both = torch.cat(parts, 1) if parts else _with_one(value)
    return _quotient(both), Sums(sums, above)


def _nothing(key: Tensor, value: Tensor) -> Sums:
    batch, _, heads, features = key.shape
    sums = value.new_zeros(batch, heads, features, value.shape[-1] + 1)
    return Sums(sums, value.new_full((batch, heads), -torch.inf))


def _with_one(value: Tensor) -> Tensor:
    return torch.cat([value, value.new_ones(*value.shape[:-1], 1)], -1)


def _quotient(both: Tensor) -> Tensor:
    least = torch.finfo(both.dtype).tiny
    return both[..., :-1] / both[..., -1:].clamp(min=least)


def _finite(most: Tensor) -> Tensor:
    """0 where nothing has been read, as -inf less -inf is no number."""
    return most.masked_fill(most == -torch.inf, 0.0)


class PerformerAttention(nn.Module):
    r"""Attention by positive orthogonal random features (FAVOR+).

    .. math:: φ(x) = \frac{1}{\sqrt m} \exp\big(W x' - |x'|^2 / 2\big), \; x' = x / D^{1/4}, \qquad
              \mathrm{E}_W\, φ(q) \cdot φ(k) = e^{q \cdot k / \sqrt D}

    The greatest exponent of each query, and of the keys that it reads, is taken out before the
    exponential: it cancels in the quotient. With ``one_way`` a cache holds the sums over the keys
    so far, which are as large however long the text is.

    Args:
        width: of input and output.
        heads: a divisor of ``width``.
        features: m.
        redraw_every: after how many calls in training W is drawn anew, 0 for never.
        one_way: whether a token reads itself and those before it alone.
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
        one_way: bool = False,
    ) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.heads, self.head_width, self.features = heads, width // heads, features
        self.redraw_every, self.one_way = redraw_every, one_way
        self.qkv = JointLinear(width, (width, width, width))
        self.output = nn.Linear(width, width)
        self.register_buffer("projection", orthogonal_features(features, self.head_width))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def redraw(self) -> None:
        """Draw W anew."""
        drawn = orthogonal_features(self.features, self.head_width)
        self.projection = drawn.to(self.projection)

    def mapped(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """φ over the greatest of its m numbers, and the logarithm of that one.

        ``[B, T, H, m]`` and ``[B, T, H]`` from x ``[B, T, H, D]``, but for a factor that cancels.
        """
        x = x * self.head_width**-0.25
        exponent = x @ self.projection.T - x.square().sum(-1, keepdim=True) / 2
        most = exponent.detach().amax(-1)
        return (exponent - most[..., None]).exp(), most

    def forward(
        self, x: Tensor, *, real: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        """``[B, T, width]`` from x of that shape.

        Args:
            x: features.
            real: ``[B, T]``, which are not padding.
            cache: holds the sums over the keys before x, and receives those with the keys of x.
        """
        if self.training and self.redraw_every and not x.is_meta:  # which has no count of calls
            if self.calls and self.calls % self.redraw_every == 0:
                self.redraw()
            self.calls += 1
        query, key, value = unbind_qkv(self.qkv(x), self.heads)
        (query, _), (key, most) = self.mapped(query), self.mapped(key)
        if real is not None:
            most = most.masked_fill(~real[..., None], -torch.inf)
        if self.one_way:
            kept = cache.state(self) if cache is not None else None
            before = None if kept is None else Sums(*kept)
            out, sums = prefix_attention(query, key, most, value, before)
            if cache is not None:
                cache.keep_state(self, sums)
        else:
            out = linear_attention(query, key, most, value)
        projected: Tensor = self.output(out.flatten(-2))
        return projected


class PerformerLayer(nn.Module):
    """Attention by features, then a feed-forward network, each with residual and norm before it.

    Args:
        attention: called ``attention(x, real=, cache=)``.
        feed_forward: called ``feed_forward(x)``.
        width: of x.
        dropout: see :class:`~edgewise.layers.Residual`.
    """

    def __init__(
        self, attention: nn.Module, feed_forward: nn.Module, width: int, *, dropout: float
    ) -> None:
        super().__init__()
        self.attention = Residual(attention, width, order="pre", dropout=dropout)
        self.feed_forward = Residual(feed_forward, width, order="pre", dropout=dropout)

    def forward(self, x: Tensor, real: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """``[B, T, width]`` from x of that shape."""
        x = self.attention(x, real=real, cache=cache)
        out: Tensor = self.feed_forward(x)
        return out


class PerformerReader(nn.Module):
    """The layers, on texts that each have a row.

    Args:
        layers: called ``layer(x, real, cache)``.
        norm: after the last.
        one_way: whether they read what is before alone, so that a text may be read by parts.
    """

    def __init__(self, layers: Sequence[nn.Module], norm: nn.Module, *, one_way: bool) -> None:
        super().__init__()
        self.layers, self.norm, self.one_way = nn.ModuleList(layers), norm, one_way
        self.caches = one_way

    def forward(
        self,
        x: Tensor,
        sequences: SequenceBatch | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """States of x, of its shape; those of padding are 0.

        Args:
            x: features ``[B, T, width]``, or ``[N, width]`` of a packed batch.
            sequences: padding, packing and positions.
            graph: none, as no pair of tokens has a score of its own.
            memory: none.
        """
        refuse_graph("performer", graph)
        sequences = sequences or SequenceBatch.of_features(x)
        if not self.one_way or sequences.has_padding:
            refuse_cache("performer", sequences, memory)
        refuse_memory("performer", memory)
        rows, real, back = sequences.right_padded(x)
        for layer in self.layers:
            rows = layer(rows, real, sequences.cache)
        sequences.advance()
        return back(self.norm(rows))
