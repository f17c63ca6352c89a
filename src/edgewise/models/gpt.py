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

from functools import partial

from torch import nn

from edgewise._utils.arguments import checked
from edgewise.encodings import text_positions
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
from edgewise.layers.transformer import Projections


@checked(depth=0)
def gpt(
    vocab_size: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    ffn_dim: int = 512,
    max_length: int = 1024,
    positions: str = "learned",
    act: str = "gelu_tanh",
    score: str = "dot",
    normaliser: str = "softmax",
    projections: Projections = "full",
    epsilon: float = 1e-5,
    dropout: float = 0.1,
    graph: Pattern = causal(),  # noqa: B008 - patterns are immutable
) -> TextModel:
    """Build a GPT language model.

    ``model.logits(states)`` gives the logits of the next token at each position.

    Args:
        vocab_size: number of tokens in the vocabulary.
        width: hidden size.
        depth: number of layers.
        heads: number of attention heads per layer.
        ffn_dim: hidden size of the feed-forward networks.
        max_length: max length of a text in tokens, for learned and binary positions only.
        positions: position encoding, a name of
            :data:`edgewise.encodings.TEXT_POSITIONS`: "learned", "sinusoidal", "rotary",
            "relative", "index", "none" and others.
        act: name of the activation function of the feed-forward networks.
        score: attention score: "dot", "bilinear", "tanh" or "concatenation".
        normaliser: normaliser of the scores, such as "softmax"; "learned": α-entmax, α is learned.
        projections: "full" (each head projects all features) or "split" (only its slice of them).
        epsilon: epsilon of the layer norms.
        dropout: dropout probability.
        graph: attention graph, which defines the tokens that each token attends to.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.gpt(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    norm = partial(nn.LayerNorm, eps=epsilon)
    encodings = text_positions(positions, width=width, heads=heads, max_length=max_length)
    embedding = TextEmbedding(vocab_size, width, positions=encodings.added, dropout=dropout)
    layers = [
        TransformerLayer(  # x + attention(norm(x)), then x + FFN(norm(x))
            width,
            heads,
            ffn_dim,
            act=act,
            score=score,
            normaliser=normaliser,
            projections=projections,
            rotary=encodings.rotary,
            order="pre",
            norm=norm,
            dropout=dropout,
        )
        for _ in range(depth)
    ]
    backbone = Backbone(TransformerStack(layers, norm(width), graph), relative=encodings.relative)
    head = LanguageModelHead(vocab_size, width)  # The head shares the embedding matrix.
    return init_normal(TextModel(embedding, backbone, head), residual_depth=depth)
