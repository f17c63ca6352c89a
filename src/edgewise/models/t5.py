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

from functools import partial

from torch import nn

from edgewise._utils.arguments import checked
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


@checked(depth=0, decoder_depth=0)
def t5(
    vocab_size: int,
    *,
    width: int = 128,
    depth: int = 4,
    decoder_depth: int | None = None,
    heads: int = 4,
    head_width: int = 32,
    ffn_dim: int = 512,
    gated: bool = False,
    num_buckets: int = 32,
    max_distance: int = 128,
    tied: bool = True,
    epsilon: float = 1e-6,
    dropout: float = 0.1,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> EncoderDecoderModel:
    """Build a T5 encoder-decoder.

    ``model.logits(states)`` gives the logits of the next token at each position.

    Args:
        vocab_size: number of tokens in the vocabulary.
        width: hidden size.
        depth: number of encoder layers.
        decoder_depth: number of decoder layers (None = as many as in the encoder).
        heads: number of attention heads per layer.
        head_width: size of each head.
        ffn_dim: hidden size of the feed-forward networks.
        gated: use feed-forward networks with a GELU gate instead of ReLU (T5 1.1).
        num_buckets: number of buckets into which relative positions are grouped.
        max_distance: distance in tokens from which all relative positions share the last bucket.
        tied: share the embedding matrix with the output layer.
        epsilon: epsilon of the RMS norms.
        dropout: dropout probability.
        graph: attention graph of the encoder, which defines the tokens that a token attends to.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.t5(1000)
        >>> source, target = torch.randint(1000, (2, 10)), torch.randint(1000, (2, 8))
        >>> model(source, None, target).shape
        torch.Size([2, 8, 128])
    """
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
            return GatedFeedForward(width, ffn_dim, act="gelu_tanh", dropout=dropout)
        return FeedForward(width, ffn_dim, act="relu", bias=False, dropout=dropout)

    def last_norm() -> nn.Module:
        return nn.Sequential(norm(width), nn.Dropout(dropout))

    encoder_layers = [
        AttentionBlock(attention(), network(), width, order="pre", norm=norm, dropout=dropout)
        for _ in range(depth)
    ]
    encoder = Backbone(
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
    decoder = Backbone(
        TransformerStack(decoder_layers, last_norm(), causal()),
        relative=Buckets(heads, num_buckets, max_distance, bidirectional=False),
    )
    head = LanguageModelHead(vocab_size, width, tied=tied, scale=width**-0.5 if tied else 1.0)
    embedding = TextEmbedding(vocab_size, width, dropout=dropout)
    return EncoderDecoderModel(embedding, EncoderDecoder(encoder, decoder), head)
