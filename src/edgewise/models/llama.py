"""Llama: a causal language model with rotary positions, gated FFN and grouped-query attention.

Formula: x = x + attention(norm(x)); x = x + W₂(σ(W_g norm(x)) ⊙ W₁ norm(x)); output norm(x)
Graph: causal by default, or any pattern without edges from later tokens
Score: ``Dot`` (scaled) of rotated queries and keys; query heads may share key and value heads
Encoding: rotary, in every layer
Normalisation: softmax over the neighbourhood; RMS norm before each sublayer
Update: residual connections around attention and around the gated feed-forward network (SiLU)
Paper: Touvron et al., LLaMA: open and efficient foundation language models, 2023
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from edgewise._utils.arguments import checked
from edgewise.encodings import Rotary
from edgewise.graphs import Pattern, causal
from edgewise.layers import (
    AttentionBlock,
    Backbone,
    GatedFeedForward,
    LanguageModelHead,
    MultiHeadAttention,
    TextEmbedding,
    TextModel,
    TransformerStack,
    init_normal,
)


@checked(depth=0)
def llama(
    vocab_size: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    key_heads: int | None = None,
    head_width: int | None = None,
    bias: bool = False,
    ffn_dim: int = 344,
    act: str = "silu",
    base: float = 10000.0,
    rates: Tensor | None = None,
    tied: bool = False,
    epsilon: float = 1e-6,
    dropout: float = 0.0,
    graph: Pattern = causal(),  # noqa: B008 - patterns are immutable
) -> TextModel:
    """Build a Llama language model.

    ``model.logits(states)`` gives the logits of the next token at each position.

    Args:
        vocab_size: number of tokens in the vocabulary.
        width: hidden size.
        depth: number of layers.
        heads: number of query heads per layer.
        key_heads: number of key and value heads; must divide ``heads`` (None = as many as
            ``heads``).
        head_width: size of each head (None = ``width // heads``).
        bias: add biases to the attention projections.
        ffn_dim: hidden size of the feed-forward networks.
        act: name of the activation function of the gated feed-forward networks.
        base: base of the rotary frequencies.
        rates: rotary frequencies ``[head_width / 2]`` in radians per token (None = computed from
            ``base``).
        tied: share the embedding matrix with the output layer.
        epsilon: epsilon of the RMS norms.
        dropout: dropout probability.
        graph: attention graph, which defines the tokens that each token attends to.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.llama(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    norm = partial(nn.RMSNorm, eps=epsilon)
    # All layers share the rotary encoding.
    rotary = Rotary(head_width or width // heads, base, rates=rates)
    layers = []
    for _ in range(depth):
        attention = MultiHeadAttention(
            width,
            heads,
            key_heads=key_heads,
            head_width=head_width,
            rotary=rotary,
            dropout=dropout,
            bias=bias,
        )
        network = GatedFeedForward(width, ffn_dim, act=act, dropout=dropout)
        layers.append(
            AttentionBlock(attention, network, width, order="pre", norm=norm, dropout=dropout)
        )
    backbone = Backbone(TransformerStack(layers, norm(width), graph))
    head = LanguageModelHead(vocab_size, width, tied=tied)
    return init_normal(TextModel(TextEmbedding(vocab_size, width), backbone, head))
