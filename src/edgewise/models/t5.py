"""T5, an encoder-decoder with relative position biases.

Formula: x = x + attention(norm(x)); x = x + FFN(norm(x)); cross-attention before the decoder's FFN
Graph: encoder complete (or any pattern), decoder causal, cross-attention complete bipartite
Score: ``Dot`` without scale; each head projects all features, without biases
Encoding: bias by the bucket of the relative position, shared by all layers of a stack
Normalisation: softmax over the neighbourhood; RMS norm before each sublayer
Update: residuals around attention and the feed-forward network (ReLU or gated GELU)
Paper: Raffel et al., Exploring the limits of transfer learning with a unified text-to-text
    Transformer, 2020
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import nn

from edgewise.attention.scores import Dot
from edgewise.encodings import Buckets
from edgewise.graphs import Pattern, causal, complete
from edgewise.layers import (
    AttentionBlock,
    Backbone,
    CrossBlock,
    EncoderDecoder,
    EncoderDecoderModel,
    FeedForward,
    GatedFeedForward,
    LanguageModelHead,
    MultiHeadAttention,
    TextEmbedding,
    TransformerStack,
)
from edgewise.models.text import TextConfig, text_model


@dataclass(frozen=True, kw_only=True)
class T5Config(TextConfig):
    """Arguments of :func:`t5`.

    Args:
        depth: number of encoder layers.
        decoder_depth: number of decoder layers (None = as many as in the encoder).
        head_width: size of each head.
        gated: use feed-forward networks with a GELU gate instead of ReLU (T5 1.1).
        num_buckets: number of buckets into which relative positions are grouped.
        max_distance: distance in tokens from which all relative positions share the last bucket.
        epsilon: epsilon of the RMS norms.
        graph: attention graph of the encoder, which defines the tokens that a token attends to.
    """

    decoder_depth: int | None = None
    head_width: int = 32
    gated: bool = False
    num_buckets: int = 32
    max_distance: int = 128
    tied: bool = True
    epsilon: float = 1e-6
    graph: Pattern = complete()


@text_model(T5Config, depth=0, decoder_depth=0)
def t5(config: T5Config) -> EncoderDecoderModel:
    """Build a T5 encoder-decoder.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.t5(1000)
        >>> source, target = torch.randint(1000, (2, 10)), torch.randint(1000, (2, 8))
        >>> model(source, None, target).shape
        torch.Size([2, 8, 128])
    """
    width, heads, dropout = config.width, config.heads, config.dropout
    norm = partial(nn.RMSNorm, eps=config.epsilon)
    attention = partial(
        MultiHeadAttention,
        width,
        heads,
        head_width=config.head_width,
        score=Dot(1.0),
        bias=False,
        dropout=dropout,
    )
    relative = partial(Buckets, heads, config.num_buckets, config.max_distance)

    def network() -> nn.Module:
        if config.gated:
            return GatedFeedForward(width, config.ffn_dim, act="gelu_tanh", dropout=dropout)
        return FeedForward(width, config.ffn_dim, act="relu", bias=False, dropout=dropout)

    def last_norm() -> nn.Module:
        return nn.Sequential(norm(width), nn.Dropout(dropout))

    encoder_layers = [
        AttentionBlock(attention(), network(), width, order="pre", norm=norm, dropout=dropout)
        for _ in range(config.depth)
    ]
    encoder_stack = TransformerStack(encoder_layers, last_norm(), config.graph)
    encoder = Backbone(encoder_stack, relative=relative(bidirectional=True))
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
        for _ in range(config.decoder_depth or config.depth)
    ]
    decoder_stack = TransformerStack(decoder_layers, last_norm(), causal())
    decoder = Backbone(decoder_stack, relative=relative(bidirectional=False))
    scale = width**-0.5 if config.tied else 1.0
    head = LanguageModelHead(config.vocab_size, width, tied=config.tied, scale=scale)
    embedding = TextEmbedding(config.vocab_size, width, dropout=dropout)
    return EncoderDecoderModel(embedding, EncoderDecoder(encoder, decoder), head)
