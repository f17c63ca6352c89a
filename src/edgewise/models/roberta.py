"""RoBERTa: BERT without token types, trained longer, with positions that skip padding.

Formula: as BERT, x = norm(token + position); x = norm(x + attention(x)); x = norm(x + FFN(x))
Graph: complete by default; ``causal()`` makes the model unidirectional
Score: ``Dot`` (scaled dot product); each head projects all features
Encoding: learned; position p (from 0, without padding) uses row p + padding id + 1 of the table
Normalisation: softmax over the neighbourhood; layer norm after each sublayer
Update: residual connections around attention and around the feed-forward network (GELU)
Paper: Liu et al., RoBERTa: a robustly optimized BERT pretraining approach, 2019
"""

from __future__ import annotations

from dataclasses import dataclass

from edgewise.layers import TextModel
from edgewise.models.bert import BertConfig, bert
from edgewise.models.text import text_model


@dataclass(frozen=True, kw_only=True)
class RobertaConfig(BertConfig):
    """Arguments of :func:`roberta`.

    Args:
        max_length: number of rows of the position table. Tokens use the rows from ``padding + 1``
            on, so a text has at most ``max_length - padding - 1`` tokens.
        padding: id of the padding token; positions skip padding and start at ``padding + 1``.
    """

    max_length: int = 514
    types: int = 0
    epsilon: float = 1e-5
    padding: int = 1


@text_model(RobertaConfig, padding=0, types=0, depth=0)
def roberta(config: RobertaConfig) -> TextModel:
    """Build a RoBERTa encoder with a masked-language-model head.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.roberta(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    return bert(**vars(config))
