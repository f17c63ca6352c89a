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

from torch import nn

from edgewise.arguments import checked
from edgewise.encodings import Buckets
from edgewise.graphs import Pattern, causal, complete
from edgewise.layers import (
    AttentionBlock,
    CrossBlock,
    EncoderDecoder,
    EncoderDecoderModel,
    FeedForward,
    GatedFeedForward,
    LanguageModelHead,
    MultiHeadAttention,
    Reader,
    TextEmbedding,
    TransformerStack,
)
from edgewise.scores import Dot


@checked(depth=0, decoder_depth=0)
def t5(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    decoder_depth: int | None = None,
    heads: int = 4,
    head_width: int = 32,
    feed_forward: int = 512,
    gated: bool = False,
    num_buckets: int = 32,
    max_distance: int = 128,
    tied: bool = True,
    epsilon: float = 1e-6,
    dropout: float = 0.1,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> EncoderDecoderModel:
    """States of target tokens; ``model.logits(states)`` are the logits of each next token."""
    norm = partial(nn.RMSNorm, eps=epsilon)
    attention = partial(
        MultiHeadAttention,
        width,
        heads,
        head_width=head_width,
        score=Dot(1.0),
        bias=False,
        dropout=dropout,
    )

    def network() -> nn.Module:
        if gated:
            return GatedFeedForward(width, feed_forward, act="gelu_tanh", dropout=dropout)
        return FeedForward(width, feed_forward, act="relu", bias=False, dropout=dropout)

    def last_norm() -> nn.Module:
        return nn.Sequential(norm(width), nn.Dropout(dropout))

    encoder_layers = [
        AttentionBlock(attention(), network(), width, order="pre", norm=norm, dropout=dropout)
        for _ in range(depth)
    ]
    encoder = Reader(
        TransformerStack(encoder_layers, last_norm(), graph),
        relative=Buckets(heads, num_buckets, max_distance, bidirectional=True),
    )
    decoder_layers = [
        CrossBlock(
            attention(),
            attention(source_width=width),
            network(),
            width,
            order="pre",
            norm=norm,
            dropout=dropout,
        )
        for _ in range(decoder_depth or depth)
    ]
    decoder = Reader(
        TransformerStack(decoder_layers, last_norm(), causal()),
        relative=Buckets(heads, num_buckets, max_distance, bidirectional=False),
    )
    head = LanguageModelHead(vocabulary, width, tied=tied, scale=width**-0.5 if tied else 1.0)
    embedding = TextEmbedding(vocabulary, width, dropout=dropout)
    return EncoderDecoderModel(embedding, EncoderDecoder(encoder, decoder), head)
