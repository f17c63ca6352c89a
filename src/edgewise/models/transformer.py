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

from functools import partial

from torch import nn

from edgewise._utils.arguments import checked
from edgewise.encodings import text_positions
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
from edgewise.layers.transformer import Order, Projections


@checked(depth=0)
def transformer(
    vocab_size: int,
    *,
    target_vocab_size: int | None = None,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    ffn_dim: int = 512,
    max_length: int = 1024,
    positions: str = "sinusoidal",
    dropout: float = 0.1,
    last_norm: bool | None = None,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
    decoder_graph: Pattern = causal(),  # noqa: B008
    act: str = "relu",
    score: str = "dot",
    normaliser: str = "softmax",
    projections: Projections = "full",
    order: Order = "post",
) -> EncoderDecoderModel:
    """Build the encoder-decoder Transformer.

    ``model.logits(states)`` gives the logits of the next token at each position.

    Args:
        vocab_size: number of tokens in the vocabulary.
        target_vocab_size: vocab size of the target text (None = one vocabulary for both texts).
        width: hidden size.
        depth: number of layers, in the encoder and in the decoder.
        heads: number of attention heads per layer.
        ffn_dim: hidden size of the feed-forward networks.
        max_length: max length of a text in tokens, for learned and binary positions only.
        positions: position encoding, a name of
            :data:`edgewise.encodings.TEXT_POSITIONS`: "sinusoidal", "learned", "rotary",
            "relative", "index", "none" and others.
        dropout: dropout probability.
        last_norm: apply a norm after the last layer of each stack (None = only if ``order="pre"``).
        graph: attention graph of the encoder, which defines the tokens that a token attends to.
        decoder_graph: self-attention graph of the decoder.
        act: name of the activation function of the feed-forward networks.
        score: attention score: "dot", "bilinear", "tanh" or "concatenation".
        normaliser: normaliser of the scores, such as "softmax"; "learned": α-entmax, α is learned.
        projections: "full" (each head projects all features) or "split" (only its slice of them).
        order: position of the norms: "post" (after each sublayer) or "pre" (before it).

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.transformer(1000)
        >>> source, target = torch.randint(1000, (2, 10)), torch.randint(1000, (2, 8))
        >>> model(source, None, target).shape
        torch.Size([2, 8, 128])
    """
    check_graph(decoder_graph, "decoder_graph")
    if last_norm is None:
        last_norm = order == "pre"
    encodings = partial(text_positions, positions, width=width, heads=heads, max_length=max_length)
    of_encoder, of_decoder = encodings(), encodings()
    encoder_layer = partial(
        TransformerLayer,
        width,
        heads,
        ffn_dim,
        act=act,
        score=score,
        normaliser=normaliser,
        projections=projections,
        rotary=of_encoder.rotary,
        order=order,
        dropout=dropout,
    )
    decoder_layer = partial(DecoderLayer, *encoder_layer.args, **encoder_layer.keywords)

    def norm() -> nn.Module:
        return nn.LayerNorm(width) if last_norm else nn.Identity()

    encoder = TransformerStack([encoder_layer() for _ in range(depth)], norm(), graph)
    decoder = TransformerStack([decoder_layer() for _ in range(depth)], norm(), decoder_graph)
    core = EncoderDecoder(
        Backbone(init_xavier(encoder), relative=of_encoder.relative),
        Backbone(init_xavier(decoder), relative=of_decoder.relative),
    )

    embedding = partial(TextEmbedding, width=width, dropout=dropout, scale=width**0.5)
    source = embedding(vocab_size, positions=of_encoder.added)
    target = None
    if target_vocab_size is not None:
        target = embedding(target_vocab_size, positions=of_decoder.added)
    head = LanguageModelHead(target_vocab_size or vocab_size, width)
    return EncoderDecoderModel(source, core, head, target_embedding=target)
