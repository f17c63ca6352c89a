"""RoBERTa, BERT trained longer: no types, and positions that count from the padding's id on.

Formula: as BERT, x = norm(token + position); x = norm(x + attention(x)); x = norm(x + FFN(x))
Graph: complete by default; ``causal()`` is the unidirectional model of masked tokens
Score: Dot (scaled), full projections
Encoding: learned; position p of a token that is not padding has row p + padding + 1
Normalisation: softmax over the neighbourhood; layer norm, post
Update: residual, then a feed-forward network (GELU) with a residual of its own
Paper: Liu et al., RoBERTa: a robustly optimized BERT pretraining approach, 2019
"""

from __future__ import annotations

from typing import Any

from edgewise.layers import TextModel
from edgewise.models.bert import bert


def roberta(
    vocabulary: int,
    *,
    length: int = 514,
    types: int = 0,
    padding: int = 1,
    epsilon: float = 1e-5,
    **options: Any,
) -> TextModel:
    """States of tokens; ``model.logits(states)`` are the scores of the masked language model.

    The table has ``length`` rows, of which ``padding + 1`` are no position. The other arguments
    are those of :func:`edgewise.models.bert.bert`.
    """
    return bert(vocabulary, length=length, types=types, padding=padding, epsilon=epsilon, **options)
