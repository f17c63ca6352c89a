"""BERT: a bidirectional language model.

Formula: x = norm(token + position + type); x = norm(x + attention(x)); x = norm(x + FFN(x))
Graph: complete by default; ``causal()`` makes the model unidirectional
Score: ``Dot`` (scaled dot product); each head projects all features
Encoding: learned absolute positions, or another text position encoding chosen by name
Normalisation: softmax or α-entmax (α fixed or learned); layer norm after each sublayer
Update: residual connections around attention and around the feed-forward network (GELU)
Paper: Devlin et al., BERT: pre-training of deep bidirectional transformers, 2018
"""

from __future__ import annotations

from functools import partial

from torch import nn

from edgewise._utils.arguments import checked
from edgewise.encodings import text_positions
from edgewise.graphs import Pattern, complete
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


@checked(padding=0, types=0, depth=0)
def bert(
    vocab_size: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    ffn_dim: int = 512,
    max_length: int = 512,
    positions: str = "learned",
    types: int = 2,
    act: str = "gelu",
    score: str = "dot",
    normaliser: str = "softmax",
    projections: Projections = "full",
    epsilon: float = 1e-12,
    dropout: float = 0.1,
    padding: int | None = None,
    init_std: float = 0.02,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> TextModel:
    """Build a BERT encoder with a masked-language-model head.

    Called as ``model(input_ids, attention_mask)``. ``model.logits(states)`` gives the logits of the
    masked language model. Fine-tune with :class:`~edgewise.layers.ClassificationHead` or
    :class:`~edgewise.layers.TokenClassificationHead`.

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
        types: number of token types, such as BERT's sentences A and B (0 = none).
        act: name of the activation function of the feed-forward networks.
        score: attention score: "dot", "bilinear", "tanh" or "concatenation".
        normaliser: normaliser of the scores, such as "softmax"; "learned": α-entmax, α is learned.
        projections: "full" (each head projects all features) or "split" (only its slice of them).
        epsilon: epsilon of the layer norms.
        dropout: dropout probability.
        padding: id of the padding token; positions then skip padding, as in RoBERTa (None = off).
        init_std: standard deviation of the initial weights; models with a small hidden size may
            need a larger value.
        graph: attention graph, which defines the tokens that each token attends to.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.bert(1000)
        >>> input_ids = torch.randint(1000, (2, 10))
        >>> attention_mask = torch.ones_like(input_ids)
        >>> states = model(input_ids, attention_mask)
        >>> model.logits(states).shape
        torch.Size([2, 10, 1000])
    """
    norm = partial(nn.LayerNorm, eps=epsilon)
    encodings = text_positions(positions, width=width, heads=heads, max_length=max_length)
    embedding = TextEmbedding(
        vocab_size,
        width,
        positions=encodings.added,
        types=types,
        norm=norm(width),
        dropout=dropout,
        padding=padding,
    )
    layers = [
        TransformerLayer(  # norm(x + attention(x)), then norm(x + FFN(x))
            width,
            heads,
            ffn_dim,
            act=act,
            score=score,
            normaliser=normaliser,
            projections=projections,
            rotary=encodings.rotary,
            order="post",
            norm=norm,
            dropout=dropout,
        )
        for _ in range(depth)
    ]
    stack = TransformerStack(layers, nn.Identity(), graph)
    backbone = Backbone(stack, relative=encodings.relative)
    head = LanguageModelHead.for_masked_tokens(vocab_size, width, act=act, norm=norm)
    return init_normal(TextModel(embedding, backbone, head), std=init_std)
