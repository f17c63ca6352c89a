"""Performer: softmax attention by positive random features, in time that grows with the text.

Formula: o_i = φ(q_i) Σ_j φ(k_j) v_jᵀ / φ(q_i) Σ_j φ(k_j), φ(x) = exp(W x - |x|² / 2) / √m; as GPT
Graph: none: tokens add to m rows, and read these; the sums run to all of the text, or up to i
Score: φ(q)·φ(k), whose mean over W is exp(q·k), q and k divided by D^¼
Encoding: learned, one vector for each position
Normalisation: by the sum, as softmax; layer norm, pre
Update: residual, then a feed-forward network (GELU) with a residual of its own
Paper: Choromanski et al., Rethinking attention with Performers, 2021
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from edgewise.arguments import check_divides, checked
from edgewise.encodings import Learned
from edgewise.graphs import Pattern
from edgewise.layers import (
    FeedForward,
    LanguageModelHead,
    Residual,
    TextEmbedding,
    TextModel,
    init_normal,
)
from edgewise.layers.attention import JointLinear, unbind_joint
from edgewise.layers.sequences import Memory, SequenceLayout, refuse_cache, refuse_graph

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
    """States of tokens; ``model.logits(states)`` are the logits of tokens.

    ``features`` is m. W is drawn anew every ``redraw_every`` steps of training, never for 0. With
    ``one_way`` a token reads itself and those before it. Dropout is on what the sublayers give:
    there are no attention weights that could be dropped.
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
    reader = PerformerReader(layers, nn.LayerNorm(width))
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


def linear_attention(query: Tensor, key: Tensor, value: Tensor, *, one_way: bool) -> Tensor:
    r""":math:`φ(q_i) \sum_j φ(k_j) v_j^\top / φ(q_i) \sum_j φ(k_j)`, ``[B, T, H, Dv]``.

    Args:
        query: φ of it, ``[B, T, H, m]``.
        key: likewise, 0 where it is padding.
        value: ``[B, T, H, Dv]``.
        one_way: whether j runs up to i, or over the whole text.
    """
    with_one = torch.cat([value, value.new_ones(*value.shape[:-1], 1)], -1)
    if not one_way:
        sums = torch.einsum("bthm,bthd->bhmd", key, with_one)
        both = torch.einsum("bthm,bhmd->bthd", query, sums)
    else:
        both = _prefix_attention(query, key, with_one)
    least = torch.finfo(both.dtype).tiny
    return both[..., :-1] / both[..., -1:].clamp(min=least)


def _prefix_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Sums up to each token: those of the chunks before it, and its own chunk pair by pair."""
    tokens = query.shape[1]
    missing = -tokens % CHUNK
    query, key, value = (
        nn.functional.pad(x, (0, 0, 0, 0, 0, missing)).unflatten(1, (-1, CHUNK))
        for x in (query, key, value)
    )
    sums = torch.einsum("bcthm,bcthd->bchmd", key, value)
    # Not all of the sum less the own: where that is much larger, nothing would be left.
    before = nn.functional.pad(sums.cumsum(1)[:, :-1], (0, 0, 0, 0, 0, 0, 1, 0))
    pairs = torch.einsum("bcihm,bcjhm->bchij", query, key).tril()
    far = torch.einsum("bcthm,bchmd->bcthd", query, before)
    near = torch.einsum("bchij,bcjhd->bcihd", pairs, value)
    return (far + near).flatten(1, 2)[:, :tokens]


class PerformerAttention(nn.Module):
    r"""Attention by positive orthogonal random features (FAVOR+).

    .. math:: φ(x) = \frac{1}{\sqrt m} \exp\big(W x' - |x'|^2 / 2\big), \; x' = x / D^{1/4}, \qquad
              \mathrm{E}_W\, φ(q) \cdot φ(k) = e^{q \cdot k / \sqrt D}

    The greatest exponent of each query, and of the keys of each text and head, is taken out before
    the exponential: it cancels in the quotient. With ``one_way`` the text's later keys count there,
    too: beside one whose features are e^87 times as large, float32 has 0 for all that is before it.

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

    def mapped(self, x: Tensor, real: Tensor | None = None, *, keys: bool) -> Tensor:
        """φ but for a factor that cancels, ``[B, T, H, m]`` from x ``[B, T, H, D]``."""
        x = x * self.head_width**-0.25
        exponent = x @ self.projection.T - x.square().sum(-1, keepdim=True) / 2
        if real is not None and keys:
            exponent = exponent.masked_fill(~real[..., None, None], -torch.inf)
        if not exponent.numel():
            return exponent
        axes = (1, 3) if keys else (3,)
        return (exponent - exponent.detach().amax(axes, keepdim=True)).exp()

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        """``[B, T, width]`` from x of that shape; ``real [B, T]`` says which are not padding."""
        if self.training and self.redraw_every and not x.is_meta:  # which has no count of calls
            if self.calls and self.calls % self.redraw_every == 0:
                self.redraw()
            self.calls += 1
        joint = self.qkv(x).reshape(*x.shape[:-1], 3, self.heads, self.head_width)
        query, key, value = unbind_joint(joint)
        query, key = self.mapped(query, keys=False), self.mapped(key, real, keys=True)
        out = linear_attention(query, key, value, one_way=self.one_way)
        projected: Tensor = self.output(out.flatten(-2))
        return projected


class PerformerLayer(nn.Module):
    """Attention by features, then a feed-forward network, each with residual and norm before it.

    Args:
        attention: called ``attention(x, real=)``.
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

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """``[B, T, width]`` from x of that shape."""
        x = self.attention(x, real=real)
        out: Tensor = self.feed_forward(x)
        return out


class PerformerReader(nn.Module):
    """The layers, on texts that each have a row.

    Args:
        layers: called ``layer(x, real)``.
        norm: after the last.
    """

    def __init__(self, layers: Sequence[nn.Module], norm: nn.Module) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm

    def forward(
        self,
        x: Tensor,
        layout: SequenceLayout | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """States of x, of its shape; those of padding are 0.

        Args:
            x: features ``[B, T, width]``, or ``[N, width]`` of a packed batch.
            layout: padding, packing and positions.
            graph: none, as no pair of tokens has a score of its own.
            memory: none.
        """
        refuse_graph("performer", graph)
        layout = SequenceLayout(x[..., 0]) if layout is None else layout
        refuse_cache("performer", layout, memory)
        rows, real, back = layout.in_rows(x)
        for layer in self.layers:
            rows = layer(rows, real)
        return back(self.norm(rows))
