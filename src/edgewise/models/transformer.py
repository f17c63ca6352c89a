"""The encoder-decoder Transformer.

Formula: x = norm(x + attention(x)); y = norm(y + attention(y)); y = norm(y + attention(y, x)); FFNs
Graph: encoder complete, decoder causal (or any pattern), cross-attention complete bipartite
Score: ``Dot`` (scaled; each head projects all features), bilinear, tanh MLP or concatenation
Encoding: sinusoidal positions, or another text position encoding chosen by name
Normalisation: softmax or α-entmax; layer norm after (default) or before each sublayer
Update: residual connections around attention and around the feed-forward network
Paper: Vaswani et al., Attention is all you need, 2017
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import nn

from edgewise.graphs import Pattern, causal, check_graph, complete
from edgewise.layers import (
    Backbone,
    DecoderLayer,
    EncoderDecoder,
    EncoderDecoderModel,
    LanguageModelHead,
    TextEmbedding,
    TransformerLayer,
    TransformerStack,
    init_xavier,
)
from edgewise.layers.transformer import Order
from edgewise.models.text import AttentionConfig, text_model


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(AttentionConfig):
    """Arguments of :func:`transformer`.

    Args:
        depth: number of layers, in the encoder and in the decoder.
        last_norm: apply a norm after the last layer of each stack (None = only if ``order="pre"``).
        graph: attention graph of the encoder, which defines the tokens that a token attends to.
        decoder_graph: self-attention graph of the decoder.
    """

    target_vocab_size: int | None = None
    positions: str = "sinusoidal"
    last_norm: bool | None = None
    graph: Pattern = complete()
    decoder_graph: Pattern = causal()
    order: Order = "post"


@text_model(TransformerConfig, depth=0)
def transformer(config: TransformerConfig) -> EncoderDecoderModel:
    """Build the encoder-decoder Transformer.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.transformer(1000)
        >>> source, target = torch.randint(1000, (2, 10)), torch.randint(1000, (2, 8))
        >>> model(source, None, target).shape
        torch.Size([2, 8, 128])
    """
    check_graph(config.decoder_graph, "decoder_graph")
    width, depth, target_vocab_size = config.width, config.depth, config.target_vocab_size
    last_norm = config.order == "pre" if config.last_norm is None else config.last_norm
    encoder_encodings, decoder_encodings = config.encodings(), config.encodings()
    encoder_layer = partial(
        TransformerLayer,
        width,
        config.heads,
        config.ffn_dim,
        act=config.act,
        score=config.score,
        normaliser=config.normaliser,
        projections=config.projections,
        rotary=encoder_encodings.rotary,
        order=config.order,
        dropout=config.dropout,
    )
    decoder_layer = partial(DecoderLayer, *encoder_layer.args, **encoder_layer.keywords)

    def norm() -> nn.Module:
        return nn.LayerNorm(width) if last_norm else nn.Identity()

    encoder = TransformerStack([encoder_layer() for _ in range(depth)], norm(), config.graph)
    decoder = TransformerStack(
        [decoder_layer() for _ in range(depth)], norm(), config.decoder_graph
    )
    core = EncoderDecoder(
        Backbone(init_xavier(encoder), relative=encoder_encodings.relative),
        Backbone(init_xavier(decoder), relative=decoder_encodings.relative),
    )

    embedding = partial(TextEmbedding, width=width, dropout=config.dropout, scale=width**0.5)
    source = embedding(config.vocab_size, positions=encoder_encodings.added)
    target = None
    if target_vocab_size is not None:
        target = embedding(target_vocab_size, positions=decoder_encodings.added)
    head = LanguageModelHead(target_vocab_size or config.vocab_size, width)
    return EncoderDecoderModel(source, core, head, target_embedding=target)
