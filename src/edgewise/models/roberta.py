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

from edgewise._utils.arguments import checked
from edgewise.graphs import Pattern, complete
from edgewise.layers import TextModel
from edgewise.layers.transformer import Projections
from edgewise.models.bert import bert


@checked(padding=0, types=0, depth=0)
def roberta(
    vocab_size: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    ffn_dim: int = 512,
    max_length: int = 514,
    types: int = 0,
    act: str = "gelu",
    score: str = "dot",
    normaliser: str = "softmax",
    projections: Projections = "full",
    epsilon: float = 1e-5,
    dropout: float = 0.1,
    padding: int = 1,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> TextModel:
    """Build a RoBERTa encoder with a masked-language-model head.

    Called as ``model(input_ids, attention_mask)``. ``model.logits(states)`` gives the logits of the
    masked language model.

    Args:
        vocab_size: number of tokens in the vocabulary.
        width: hidden size.
        depth: number of layers.
        heads: number of attention heads per layer.
        ffn_dim: hidden size of the feed-forward networks.
        max_length: number of rows of the position table. Tokens use the rows from ``padding + 1``
            on, so a text has at most ``max_length - padding - 1`` tokens.
        types: number of token types (0 = none).
        act: name of the activation function of the feed-forward networks.
        score: attention score: "dot", "bilinear", "tanh" or "concatenation".
        normaliser: normaliser of the scores, such as "softmax"; "learned": α-entmax, α is learned.
        projections: "full" (each head projects all features) or "split" (only its slice of them).
        epsilon: epsilon of the layer norms.
        dropout: dropout probability.
        padding: id of the padding token; positions skip padding and start at ``padding + 1``.
        graph: attention graph, which defines the tokens that each token attends to.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.roberta(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    return bert(
        vocab_size,
        width=width,
        depth=depth,
        heads=heads,
        ffn_dim=ffn_dim,
        max_length=max_length,
        types=types,
        act=act,
        score=score,
        normaliser=normaliser,
        projections=projections,
        epsilon=epsilon,
        dropout=dropout,
        padding=padding,
        graph=graph,
    )
