"""BERT, a bidirectional language model.

Formula: x = norm(token + position + type); x = norm(x + attention(x)); x = norm(x + FFN(x))
Graph: complete by default; ``causal()`` is the unidirectional model of masked tokens
Score: Dot (scaled), full projections
Encoding: learned, one vector for each position
Normalisation: softmax over the neighbourhood, or entmax with α fixed or learned; layer norm, post
Update: residual, then a feed-forward network (GELU) with a residual of its own
Paper: Devlin et al., BERT: pre-training of deep bidirectional transformers, 2018
"""

from __future__ import annotations

from functools import partial

from torch import nn

from edgewise.arguments import checked
from edgewise.encodings import Learned
from edgewise.graphs import Pattern, complete
from edgewise.layers import (
    LanguageModelHead,
    Reader,
    TextEmbedding,
    TextModel,
    TransformerLayer,
    TransformerStack,
    init_normal,
)
from edgewise.layers.attention import Projections


@checked(padding=0, types=0, depth=0)
def bert(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 512,
    length: int = 512,
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
    """States of tokens; ``model.logits(states)`` are the logits of the masked language model.

    Fine-tune with :class:`~edgewise.layers.ClassificationHead` or
    :class:`~edgewise.layers.TokenClassificationHead`. ``init_std`` is how wide the weights begin:
    a narrow model may need wider ones than BERT's.
    """
    norm = partial(nn.LayerNorm, eps=epsilon)
    embedding = TextEmbedding(
        vocabulary,
        width,
        positions=Learned(length, width),
        types=types,
        norm=norm(width),
        dropout=dropout,
        padding=padding,
    )
    layers = [
        TransformerLayer(  # norm(x + attention(x)), then norm(x + FFN(x))
            width,
            heads,
            feed_forward,
            act=act,
            score=score,
            normaliser=normaliser,
            projections=projections,
            order="post",
            norm=norm,
            dropout=dropout,
        )
        for _ in range(depth)
    ]
    reader = Reader(TransformerStack(layers, nn.Identity(), graph))
    head = LanguageModelHead.for_masked_tokens(vocabulary, width, act=act, norm=norm)
    return init_normal(TextModel(embedding, reader, head), std=init_std)
