"""BERT, a bidirectional language model.

Formula: x = norm(token + position + type); x = norm(x + attention(x)); x = norm(x + FFN(x))
Graph: complete by default; ``causal()`` is the unidirectional model of masked tokens
Score: Dot (scaled), full projections
Encoding: learned, one vector for each position
Normalisation: softmax over the neighbourhood; layer norm, post
Update: residual, then a feed-forward network (GELU) with a residual of its own
Paper: Devlin et al., BERT: pre-training of deep bidirectional transformers, 2018
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from edgewise.encodings import Learned
from edgewise.graphs import Pattern, complete
from edgewise.layers import LanguageHead, Reader, TextEmbedding, TextModel, activation
from edgewise.layers.start import normal_start
from edgewise.models.transformer_encoder import transformer_encoder
from edgewise.ranges import checked


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
    epsilon: float = 1e-12,
    dropout: float = 0.1,
    padding: int | None = None,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> TextModel:
    """States of tokens; ``model.logits(states)`` are the scores of the masked language model.

    Fine-tune with :class:`~edgewise.layers.PooledHead` or :class:`~edgewise.layers.TokenHead`.
    """
    norm = partial(nn.LayerNorm, eps=epsilon)
    options: dict[str, Any] = {
        "types": types,
        "norm": norm(width),
        "dropout": dropout,
        "padding": padding,
    }
    embedding = TextEmbedding(vocabulary, width, positions=Learned(length, width), **options)
    options = {"depth": depth, "heads": heads, "feed_forward": feed_forward, "act": act}
    options |= {"score": score, "norm": norm, "dropout": dropout, "graph": graph}
    reader = Reader(transformer_encoder(width, **options), graph)
    transform = nn.Sequential(nn.Linear(width, width), activation(act), norm(width))
    head = LanguageHead(vocabulary, width, bias=True, transform=transform)
    return normal_start(TextModel(embedding, reader, head))
