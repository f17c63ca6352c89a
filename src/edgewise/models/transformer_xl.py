"""Transformer-XL, a language model that reads segment after segment and remembers the one before.

Formula: s_ij √D = (q_i + u)·k_j + (q_i + v)·W R_{i-j}, of x and SG(memory); y = norm(x + attention)
Graph: ``causal()`` with more sources than targets: the memory, then the segment
Score: Dot on the two sums side by side, as R_{i-j} is R_j turned by i; u and v for all layers
Encoding: sinusoidal, of distances alone, in every score
Normalisation: softmax over the neighbourhood; layer norm, post or pre
Update: residual, then a feed-forward network with a residual of its own
Paper: Dai et al., Transformer-XL: attentive language models beyond a fixed-length context, 2019
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edgewise import Dot, attend
from edgewise.arguments import check_divides, checked
from edgewise.biases import EdgeTerm
from edgewise.checks import bind_graph
from edgewise.encodings.sinusoidal import sinusoidal_positions
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, Pattern, causal, check_graph
from edgewise.layers import (
    AttentionBlock,
    Cache,
    FeedForward,
    GraphLayer,
    LanguageModelHead,
    Memory,
    SequenceBatch,
    TextEmbedding,
    TextModel,
    TransformerStack,
    init_normal,
)
from edgewise.layers.sequences import padding_bias, refuse_memory
from edgewise.layers.transformer import Order


@checked(depth=0, memory=0)
def transformer_xl(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 512,
    memory: int = 128,
    act: str = "relu",
    order: Order = "post",
    dropout: float = 0.1,
    graph: Pattern = causal(),  # noqa: B008 - patterns are immutable
) -> TextModel:
    """States of tokens; ``model.logits(states)`` are the logits of each next token.

    With ``cache=`` a call goes on where the one before ended: each layer reads the last ``memory``
    nodes that it was given before, whose gradient is not asked for. Without, it is relative
    attention.
    """
    check_even(width)
    embedding = TextEmbedding(vocabulary, width, dropout=dropout)
    layers = [
        AttentionBlock(  # norm(x + attention(x)), then norm(x + FFN(x))
            RelativeAttention(width, heads, dropout=dropout),
            FeedForward(width, feed_forward, act=act, dropout=dropout),
            width,
            order=order,
            dropout=dropout,
        )
        for _ in range(depth)
    ]
    last = nn.LayerNorm(width) if order == "pre" else nn.Identity()
    stack = TransformerStack(layers, last, graph)
    reader = SegmentReader(
        "transformer_xl", stack, GlobalRelativeBias(heads, width), Recent(memory)
    )
    return init_normal(TextModel(embedding, reader, LanguageModelHead(vocabulary, width)))


def check_even(width: int) -> None:
    """Refuse a width that pairs of sine and cosine do not fill."""
    if width % 2:
        raise ArgumentError(
            "width",
            expected="an even width, for pairs of sine and cosine",
            got=repr(width),
            remedy="add one to it",
        )


class GlobalRelativeBias(nn.Module):
    """What is asked whoever asks: u of contents and v of distances, ``[H, D]`` each.

    Args:
        heads: H.
        width: of all heads together.
    """

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.content = nn.Parameter(torch.zeros(heads, width // heads))
        self.distance = nn.Parameter(torch.zeros(heads, width // heads))


class RelativeAttention(GraphLayer):
    r"""Attention whose scores know the distance (Dai et al., 2019).

    .. math:: s_{ij} \sqrt D = (q_i + u)^\top k_j + (q_i + v)^\top W R_{i-j}

    R has a sine and a cosine for each of ``width / 2`` frequencies. As these of a difference are
    products of those of i and of j, the second term is a product of two vectors, too: W's rows in
    the direction of :math:`q_i + v`, turned by i, with :math:`R_j`. So both are one product of
    ``D + width`` numbers, on any graph and any engine, and there is no tensor of the edges.

    Args:
        width: of x and of R; an even number.
        heads: H, a divisor of it.
        dropout: on the attention weights, in training.
    """

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.head_width, self.dropout = heads, width // heads, dropout
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.distance = nn.Linear(width, width, bias=False)  # W, that of all heads
        self.output = nn.Linear(width, width, bias=False)

    def forward(
        self,
        x: Tensor,
        graph: Graph,
        *,
        preferences: GlobalRelativeBias,
        memory: Recent | None = None,
        cache: Cache | None = None,
        bias: EdgeTerm | None = None,
        **_: Any,
    ) -> Tensor:
        """``[..., N, width]`` from x of that shape.

        Args:
            x: features.
            graph: who reads whom, of the remembered nodes and x; targets are the last sources.
            preferences: u and v.
            memory: what is kept.
            cache: where.
            bias: for the edges.
        """
        source = x
        if cache is not None and memory is not None:
            source = memory.before(self, x, cache)
            memory.keep(self, source, cache)
        query = self._heads(self.query(x))
        key, value = self._heads(self.key(source)), self._heads(self.value(source))
        waves = sinusoidal_positions(
            torch.arange(graph.num_sources, device=x.device), x.shape[-1]
        ).to(x)
        asked = torch.einsum(
            "...hd,hdw->...hw",
            query + preferences.distance,
            self.distance.weight.view(self.heads, self.head_width, -1),
        )
        asked = turned(asked, waves[graph.num_sources - graph.num_targets :, None])
        waves = waves[:, None].expand(*key.shape[:-1], -1)
        asking = torch.cat([query + preferences.content, asked], -1)
        # Under autocast only some of these are of 16 bits.
        heads = attend(
            asking,
            torch.cat([key, waves], -1).to(asking),
            value.to(asking),
            graph,
            score=Dot(self.head_width**-0.5),
            bias=bias,
            dropout=self.dropout if self.training else 0.0,
            layout="NHD",
        )
        out: Tensor = self.output(heads.flatten(-2))
        return out

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], self.heads, self.head_width)


def turned(asked: Tensor, waves: Tensor) -> Tensor:
    r"""What asks :math:`R_{i-j}` for the sum over a of sines and b of cosines, of :math:`R_j`.

    .. math:: a \sin\omega(i-j) + b \cos\omega(i-j) =
              (b \sin\omega i - a \cos\omega i) \sin\omega j
              + (a \sin\omega i + b \cos\omega i) \cos\omega j

    Args:
        asked: ``[..., N, H, W]``: a and b in turn.
        waves: :math:`R_i`, ``[N, 1, W]``: sines and cosines in turn.
    """
    a, b = asked[..., 0::2], asked[..., 1::2]
    sine, cosine = waves[..., 0::2], waves[..., 1::2]
    pairs = torch.stack([b * sine - a * cosine, a * sine + b * cosine], -1)
    return pairs.flatten(-2)


class Recent:
    """The last nodes that a layer was given, as a memory.

    Args:
        length: how many.
    """

    def __init__(self, length: int) -> None:
        self.length = length

    def held(self, past: int) -> int:
        """How many nodes are remembered of so many."""
        return min(past, self.length)

    def mask(self, mask: Tensor, past: int, count: int) -> Tensor:
        """``[B, sources]`` of ``[B, past + count]``: of what is remembered and of what is new."""
        return mask[:, -(self.held(past) + count) :]

    def before(self, layer: nn.Module, x: Tensor, cache: Cache) -> Tensor:
        """What is remembered, and x after it."""
        kept = cache.state(layer)
        return x if kept is None else torch.cat([*kept, x], -2)

    def keep(self, layer: nn.Module, source: Tensor, cache: Cache) -> None:
        """Remember the last of these, without what their gradient needs."""
        first = max(source.shape[-2] - self.length, 0)
        cache.keep_state(layer, (source[..., first:, :].detach(),))


class SegmentReader(nn.Module):
    """Layers that read a segment and what each remembers of those before.

    Args:
        name: of the model.
        stack: layers called ``layer(x, graph, preferences=, memory=, cache=, bias=)``, and who
            reads whom, where a call gives no other graph.
        preferences: of all layers.
        memory: what is kept of a segment.
    """

    goes_on = True
    """What the cache holds does not grow: a text may be read part by part for ever."""

    def __init__(
        self, name: str, stack: TransformerStack, preferences: GlobalRelativeBias, memory: Recent
    ) -> None:
        super().__init__()
        self.name, self.stack, self.preferences, self.memory = name, stack, preferences, memory

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
            sequences: padding, packing and cache.
            graph: who reads whom, in place of the stack's own pattern.
            memory: none, as it reads no other sequence.
        """
        refuse_memory(self.name, memory)
        sequences = sequences or SequenceBatch.of_features(x)
        pattern = self.stack.graph if graph is None else check_graph(graph)
        mask = sequences.padding_mask
        if sequences.cache is None:
            own = sequences.bind(pattern)
        else:  # which remembers less than has been read
            sources = self.memory.held(sequences.past) + sequences.count
            own = bind_graph(pattern, sequences.count, sources, sequences.device)
            if mask is not None:
                mask = self.memory.mask(mask, sequences.past, sequences.count)
        states: Tensor = self.stack(
            x,
            own,
            preferences=self.preferences,
            memory=self.memory,
            cache=sequences.cache,
            bias=padding_bias(mask, own, x),
        )
        sequences.advance()
        return states
