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

from dataclasses import dataclass
from functools import partial

from torch import nn

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
from edgewise.models.text import AttentionConfig, text_model


@dataclass(frozen=True, kw_only=True)
class BertConfig(AttentionConfig):
    """Arguments of :func:`bert`.

    Args:
        padding: id of the padding token; positions then skip padding, as in RoBERTa (None = off).
        init_std: standard deviation of the initial weights; small hidden sizes may need more.
        ffn_dropout: dropout rate of the hidden features of the feed-forward networks; None =
            ``dropout``. BERT itself and checkpoints of transformers have 0.
    """

    max_length: int = 512
    types: int = 2
    act: str = "gelu"
    epsilon: float = 1e-12
    padding: int | None = None
    init_std: float = 0.02
    ffn_dropout: float | None = None
    graph: Pattern = complete()


@text_model(BertConfig, padding=0, types=0, depth=0)
def bert(config: BertConfig) -> TextModel:
    """Build a BERT encoder with a masked-language-model head.

    Fine-tune with :class:`~edgewise.layers.ClassificationHead` or
    :class:`~edgewise.layers.TokenClassificationHead`.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.bert(1000)
        >>> states = model(torch.randint(1000, (2, 10)))
        >>> model.logits(states).shape
        torch.Size([2, 10, 1000])
    """
    norm = partial(nn.LayerNorm, eps=config.epsilon)
    encodings = config.encodings()
    embedding = TextEmbedding(
        config.vocab_size,
        config.width,
        positions=encodings.added,
        types=config.types,
        norm=norm(config.width),
        dropout=config.dropout,
        padding=config.padding,
    )
    layers = [
        TransformerLayer(  # norm(x + attention(x)), then norm(x + FFN(x))
            config.width,
            config.heads,
            config.ffn_dim,
            act=config.act,
            score=config.score,
            normaliser=config.normaliser,
            projections=config.projections,
            rotary=encodings.rotary,
            order="post",
            norm=norm,
            dropout=config.dropout,
            ffn_dropout=config.ffn_dropout,
        )
        for _ in range(config.depth)
    ]
    stack = TransformerStack(layers, nn.Identity(), config.graph)
    backbone = Backbone(stack, relative=encodings.relative)
    head = LanguageModelHead.for_masked_tokens(
        config.vocab_size, config.width, act=config.act, norm=norm
    )
    return init_normal(TextModel(embedding, backbone, head), std=config.init_std)
