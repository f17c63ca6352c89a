"""Transformer-XL: a language model that reads texts in segments and remembers earlier segments.

Formula: s_ij √D = (q_i + u)·k_j + (q_i + v)·W R_{i-j}; sources j are memory (no gradient) and x
Graph: ``causal()`` with more sources than targets: the memory, then the segment
Score: ``Dot`` of concatenated content and position features; all layers share the biases u and v
Encoding: sinusoids R of the relative position
Normalisation: softmax over the neighbourhood; layer norm after or before each sublayer
Update: residual connections around attention and around the feed-forward network
Paper: Dai et al., Transformer-XL: attentive language models beyond a fixed-length context, 2019
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from edgewise import Dot, attend
from edgewise._utils.arguments import check_divides, check_even
from edgewise.attention.biases import EdgeTerm
from edgewise.encodings.sinusoidal import sinusoidal_positions
from edgewise.graphs import Graph, Pattern, causal, check_graph
from edgewise.graphs.graph import bind_graph
from edgewise.layers import (
    AttentionBlock,
    Cache,
    FeedForward,
    GraphLayer,
    LanguageModelHead,
    SequenceBatch,
    TextEmbedding,
    TextModel,
    TransformerStack,
    init_normal,
)
from edgewise.layers.projections import matrix_of
from edgewise.layers.single_text import SingleTextBackbone
from edgewise.layers.text import padding_bias
from edgewise.layers.transformer import Order
from edgewise.models.text import TextConfig, text_model


@dataclass(frozen=True, kw_only=True)
class TransformerXLConfig(TextConfig):
    """Arguments of :func:`transformer_xl`.

    Args:
        memory: number of past inputs that each layer keeps (0 = none).
    """

    memory: int = 128
    act: str = "relu"
    order: Order = "post"
    graph: Pattern = causal()


@text_model(TransformerXLConfig, depth=0, memory=0)
def transformer_xl(config: TransformerXLConfig) -> TextModel:
    """Build a Transformer-XL language model.

    With ``cache=`` a call continues the text of the previous call: each layer also attends to its
    last ``memory`` inputs, which get no gradient.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.transformer_xl(1000, memory=64)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    return segment_model("transformer_xl", config, Recent(config.memory))


def segment_model(name: str, config: TransformerXLConfig, memory: Recent) -> TextModel:
    """Build the model ``name``, whose layers store past inputs in ``memory``."""
    width, dropout = config.width, config.dropout
    check_even("width", width, "positions are pairs of sine and cosine")
    embedding = TextEmbedding(config.vocab_size, width, dropout=dropout)
    layers = [
        AttentionBlock(  # with post-norm: norm(x + attention(x)), then norm(x + FFN(x))
            RelativeAttention(width, config.heads, dropout=dropout),
            FeedForward(width, config.ffn_dim, act=config.act, dropout=dropout),
            width,
            order=config.order,
            dropout=dropout,
        )
        for _ in range(config.depth)
    ]
    last_norm = nn.LayerNorm(width) if config.order == "pre" else nn.Identity()
    stack = TransformerStack(layers, last_norm, config.graph)
    backbone = SegmentBackbone(name, stack, GlobalRelativeBias(config.heads, width), memory)
    head = LanguageModelHead(config.vocab_size, width)
    return init_normal(TextModel(embedding, backbone, head))


class GlobalRelativeBias(nn.Module):
    """Learned vectors added to all queries: u for content and v for distance, ``[H, D]`` each."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.content = nn.Parameter(torch.zeros(heads, width // heads))
        self.distance = nn.Parameter(torch.zeros(heads, width // heads))


class RelativeAttention(GraphLayer):
    r"""Attention with relative positions (Dai et al., 2019).

    .. math:: s_{ij} \sqrt D = (q_i + u)^\top k_j + (q_i + v)^\top W R_{i-j}

    :math:`R_d` holds sines and cosines of the offset d, so :math:`(q_i + v)^\top W R_{i-j}` is the
    product of :math:`R_j` with :math:`W^\top (q_i + v)` rotated by i. The score is then one dot
    product of size ``D + width``, for any graph and engine, without a tensor over edges.
    """

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.head_width, self.dropout = heads, width // heads, dropout
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.distance = nn.Linear(width, width, bias=False)  # The matrix W of all heads.
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
        """Return features ``[..., N, width]`` from x of the same shape."""
        source = x
        if cache is not None and memory is not None:
            source = memory.prepend(self, x, cache)
            memory.update(self, source, cache)
        query = self._heads(self.query(x))
        key, value = self._heads(self.key(source)), self._heads(self.value(source))
        positions = torch.arange(graph.num_sources, device=x.device)
        encoding = sinusoidal_positions(positions, x.shape[-1]).to(x)[:, None]
        distance = matrix_of(self.distance, x.shape[-1], like=x)
        position_query = torch.einsum(
            "...hd,hdw->...hw",
            query + preferences.distance,
            distance.view(self.heads, self.head_width, -1),
        )
        position_query = rotate(position_query, encoding[graph.num_sources - graph.num_targets :])
        query = torch.cat([query + preferences.content, position_query], -1)
        key = torch.cat([key, encoding.expand(*key.shape[:-1], -1)], -1)
        heads = attend(
            query,
            key,
            value,
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


def rotate(query: Tensor, encoding: Tensor) -> Tensor:
    r"""Rotate a query by its position, so that its product with R_j is the product with R_{i-j}.

    .. math:: a \sin\omega(i-j) + b \cos\omega(i-j) =
              (b \sin\omega i - a \cos\omega i) \sin\omega j
              + (a \sin\omega i + b \cos\omega i) \cos\omega j
    """
    a, b = query[..., 0::2], query[..., 1::2]
    sine, cosine = encoding[..., 0::2], encoding[..., 1::2]
    pairs = torch.stack([b * sine - a * cosine, a * sine + b * cosine], -1)
    return pairs.flatten(-2)


class Recent:
    """Memory that holds a layer's last inputs."""

    def __init__(self, length: int) -> None:
        self.length = length

    def num_memories(self, past: int) -> int:
        """Return the number of stored vectors after ``past`` inputs."""
        return min(past, self.length)

    def mask(self, mask: Tensor, past: int, count: int) -> Tensor:
        """Return the padding mask ``[B, sources]`` of the memory and the new tokens."""
        return mask[:, -(self.num_memories(past) + count) :]

    def prepend(self, layer: nn.Module, x: Tensor, cache: Cache) -> Tensor:
        """Return the memory of the layer, followed by its new inputs x."""
        state = cache.state(layer)
        return x if state is None else torch.cat([*state, x], -2)

    def update(self, layer: nn.Module, source: Tensor, cache: Cache) -> None:
        """Store the last inputs in the cache, without gradients."""
        first = max(source.shape[-2] - self.length, 0)
        cache.keep_state(layer, (source[..., first:, :].detach(),))


class SegmentBackbone(SingleTextBackbone):
    """Stack of layers that attend to a segment and to stored inputs of earlier segments."""

    bounded_cache = True
    """Whether the cache has bounded size, so that a text of any length can be read in segments."""

    takes_graph, caches = True, True

    def __init__(
        self, name: str, stack: TransformerStack, preferences: GlobalRelativeBias, memory: Recent
    ) -> None:
        super().__init__()
        self.name, self.stack, self.preferences, self.memory = name, stack, preferences, memory

    def run(self, x: Tensor, sequences: SequenceBatch, graph: Pattern | None) -> Tensor:
        pattern = self.stack.graph if graph is None else check_graph(graph)
        mask = sequences.padding_mask
        if sequences.cache is None:
            bound = sequences.bind(pattern)
        else:  # The memory may hold fewer tokens than the text so far.
            sources = self.memory.num_memories(sequences.past) + sequences.count
            bound = bind_graph(pattern, sequences.count, sources, sequences.device)
            if mask is not None:
                mask = self.memory.mask(mask, sequences.past, sequences.count)
        states: Tensor = self.stack(
            x,
            bound,
            preferences=self.preferences,
            memory=self.memory,
            cache=sequences.cache,
            bias=padding_bias(mask, bound, x),
        )
        sequences.advance()
        return states
