"""GPT: a causal language model.

Formula: x = token + position; x = x + attention(norm(x)); x = x + FFN(norm(x)); output norm(x)
Graph: causal by default, or any pattern without edges from later tokens
Score: ``Dot`` (scaled dot product); each head projects all features
Encoding: learned absolute positions, or another text position encoding chosen by name
Normalisation: softmax or α-entmax (α fixed or learned); layer norm before each sublayer
Update: residual connections around attention and around the feed-forward network (GELU)
Paper: Radford et al., Language models are unsupervised multitask learners, 2019

Order of a forward pass

1. ``gpt`` (this file) builds the model from its parts.
2. ``TextModel.forward`` (layers/text.py) calls ``TextEmbedding``, which adds token and position
   vectors, then ``Backbone``, which binds the attention graph and runs the layers.
3. ``TransformerStack`` (layers/transformer.py) calls each ``TransformerLayer``, which applies
   ``MultiHeadAttention`` and ``FeedForward``, each in a ``Residual``. The final norm follows.
4. ``TextModel.logits`` (layers/text.py) calls ``LanguageModelHead``, which multiplies the states
   with the vector of every token.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import nn

from edgewise.graphs import Pattern, causal
from edgewise.layers import (
    Backbone,
    LanguageModelHead,
    TextEmbedding,
    TextModel,
    TransformerLayer,
    TransformerStack,
    init_normal,
)
from edgewise.models.text import AttentionConfig, text_model


@dataclass(frozen=True, kw_only=True)
class GPTConfig(AttentionConfig):
    """Arguments of :func:`gpt`."""

    act: str = "gelu_tanh"
    epsilon: float = 1e-5
    graph: Pattern = causal()


@text_model(GPTConfig, depth=0)
def gpt(config: GPTConfig) -> TextModel:
    """Build a GPT language model.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.gpt(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    norm = partial(nn.LayerNorm, eps=config.epsilon)
    encodings = config.encodings()
    embedding = TextEmbedding(
        config.vocab_size, config.width, positions=encodings.added, dropout=config.dropout
    )
    layers = [
        TransformerLayer(  # x + attention(norm(x)), then x + FFN(norm(x))
            config.width,
            config.heads,
            config.ffn_dim,
            act=config.act,
            score=config.score,
            normaliser=config.normaliser,
            projections=config.projections,
            rotary=encodings.rotary,
            order="pre",
            norm=norm,
            dropout=config.dropout,
        )
        for _ in range(config.depth)
    ]
    stack = TransformerStack(layers, norm(config.width), config.graph)
    backbone = Backbone(stack, relative=encodings.relative)
    head = LanguageModelHead(config.vocab_size, config.width)  # shares the embedding matrix
    return init_normal(TextModel(embedding, backbone, head), residual_depth=config.depth)
