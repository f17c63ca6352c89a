"""T5, an encoder-decoder whose positions are a bias on every edge.

Formula: x = x + attention(norm(x)); x = x + FFN(norm(x)); the decoder reads the encoder between
Graph: encoder complete, decoder causal, between them complete bipartite; any pattern
Score: Dot without a scale, full projections without biases
Encoding: buckets of distances, a bias that all layers of a stack share
Normalisation: softmax over the neighbourhood; root mean square norm, pre
Update: residual, then a feed-forward network (ReLU, or GELU with a gate) with a residual
Paper: Raffel et al., Exploring the limits of transfer learning with a text-to-text model, 2020
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from edgewise import layers as ew
from edgewise.encodings import Buckets
from edgewise.graphs import Pattern, causal, complete
from edgewise.models.transformer_encoder import TransformerEncoder
from edgewise.scores import Dot


def t5(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    decoder_depth: int | None = None,
    heads: int = 4,
    head_width: int = 32,
    feed_forward: int = 512,
    act: str = "relu",
    gated: bool = False,
    buckets: int = 32,
    most_distant: int = 128,
    tied: bool = True,
    scaled: bool = True,
    epsilon: float = 1e-6,
    dropout: float = 0.1,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> ew.PairModel:
    """States of target tokens; ``model.logits(states)`` are the scores of each next token."""
    norm = partial(nn.RMSNorm, eps=epsilon)
    options: dict[str, Any] = {"head_width": head_width, "bias": False, "dropout": dropout}
    attention = partial(ew.MultiHeadAttention, width, heads, score=Dot(1.0), **options)
    network: Any = ew.GatedFeedForward if gated else partial(ew.FeedForward, bias=False)
    kinds: list[Any] = [ew.AttentionBlock, ew.CrossBlock]
    readers = []
    for parts, count, reads in ((1, depth, graph), (2, decoder_depth or depth, causal())):
        stacked = []
        for _ in range(count):
            half = [attention() for _ in range(parts)]
            half.append(network(width, feed_forward, act=act, dropout=dropout))
            block = kinds[parts - 1](*half, width, order="pre", norm=norm, dropout=dropout)
            stacked.append(block)
        positions = Buckets(heads, buckets, most_distant, both_ways=parts == 1)
        stack = TransformerEncoder(stacked, nn.Sequential(norm(width), nn.Dropout(dropout)), reads)
        readers.append(ew.Reader(stack, reads, relative=positions))
    embedding = ew.TextEmbedding(vocabulary, width, dropout=dropout)
    head = ew.LanguageHead(vocabulary, width, tied=tied, scale=width**-0.5 if scaled else 1.0)
    return ew.PairModel(embedding, ew.EncoderDecoder(*readers), head)
