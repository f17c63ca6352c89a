"""Llama, a causal language model with rotary positions, gates and grouped heads.

Formula: x = x + attention(norm(x)); x = x + W₂(σ(W_g norm(x)) ⊙ W₁ norm(x)); norm(x) at last
Graph: causal by default; any pattern without edges from the future
Score: Dot (scaled) of turned queries and keys; a key head may serve a group of query heads
Encoding: rotary, in every layer
Normalisation: softmax over the neighbourhood; root mean square norm, pre
Update: residual, then a gated feed-forward network (SiLU) with a residual of its own
Paper: Touvron et al., LLaMA: open and efficient foundation language models, 2023
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, nn

from edgewise import layers as ew
from edgewise.encodings import Rotary
from edgewise.graphs import Pattern, causal
from edgewise.models.transformer_encoder import TransformerEncoder
from edgewise.ranges import checked


@checked(depth=0)
def llama(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    key_heads: int | None = None,
    head_width: int | None = None,
    bias: bool = False,
    feed_forward: int = 344,
    act: str = "silu",
    base: float = 10000.0,
    rates: Tensor | None = None,
    tied: bool = False,
    epsilon: float = 1e-6,
    dropout: float = 0.0,
    graph: Pattern = causal(),  # noqa: B008 - patterns are immutable
) -> ew.TextModel:
    """States of tokens; ``model.logits(states)`` are the scores of each next token."""
    rotary = Rotary(head_width or width // heads, base, rates=rates)
    attention: dict[str, Any] = {"key_heads": key_heads, "head_width": head_width, "bias": bias}
    attention |= {"rotary": rotary, "dropout": dropout}
    norm = partial(nn.RMSNorm, eps=epsilon)
    stacked = []
    for _ in range(depth):
        halves = (
            ew.MultiHeadAttention(width, heads, **attention),
            ew.GatedFeedForward(width, feed_forward, act=act, dropout=dropout),
        )
        stacked.append(ew.AttentionBlock(*halves, width, order="pre", norm=norm, dropout=dropout))
    reader = ew.Reader(TransformerEncoder(stacked, norm(width), graph), graph)
    head = ew.LanguageHead(vocabulary, width, tied=tied)
    return ew.normal_start(ew.TextModel(ew.TextEmbedding(vocabulary, width), reader, head))
