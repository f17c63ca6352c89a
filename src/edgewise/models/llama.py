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

from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

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
from edgewise.models.text import TextConfig, text_model


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(TextConfig):
    """Arguments of :func:`llama`.

    Args:
        heads: number of query heads per layer.
        key_heads: number of key and value heads; must divide ``heads`` (None = as many as
            ``heads``).
        bias: add biases to the attention projections.
        base: base of the rotary frequencies.
        rates: rotary frequencies ``[head_width / 2]`` in radians per token (None = computed from
            ``base``).
        epsilon: epsilon of the RMS norms.
    """

    key_heads: int | None = None
    head_width: int | None = None
    bias: bool = False
    ffn_dim: int = 344
    act: str = "silu"
    base: float = 10000.0
    rates: Tensor | None = None
    tied: bool = False
    epsilon: float = 1e-6
    dropout: float = 0.0
    graph: Pattern = causal()


@text_model(LlamaConfig, depth=0)
def llama(config: LlamaConfig) -> TextModel:
    """Build a Llama language model.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.llama(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    width, dropout = config.width, config.dropout
    norm = partial(nn.RMSNorm, eps=config.epsilon)
    rotary = Rotary(config.head_width or width // config.heads, config.base, rates=config.rates)
    layers = []
    for _ in range(config.depth):
        attention = MultiHeadAttention(
            width,
            config.heads,
            key_heads=config.key_heads,
            head_width=config.head_width,
            rotary=rotary,
            dropout=dropout,
            bias=config.bias,
        )
        network = GatedFeedForward(width, config.ffn_dim, act=config.act, dropout=dropout)
        layers.append(
            AttentionBlock(attention, network, width, order="pre", norm=norm, dropout=dropout)
        )
    backbone = Backbone(TransformerStack(layers, norm(width), config.graph))
    head = LanguageModelHead(config.vocab_size, width, tied=config.tied)
    return init_normal(TextModel(TextEmbedding(config.vocab_size, width), backbone, head))
