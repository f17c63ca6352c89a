"""T5, an encoder-decoder whose positions are a bias on every edge.

Formula: x = x + attention(norm(x)); x = x + FFN(norm(x)); the decoder reads the encoder between
Graph: encoder complete, decoder causal, between them complete bipartite; any pattern
Score: Dot without a scale, full projections without biases
Encoding: buckets of distances, a bias that all layers of a stack share
Normalisation: softmax over the neighbourhood; root mean square norm, pre
Update: residual, then a feed-forward network (ReLU, or GELU with a gate) with a residual
Paper: Raffel et al., Exploring the limits of transfer learning with a text-to-text model, 2020
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from edgewise import layers as ew
from edgewise.encodings import Buckets
from edgewise.graphs import Pattern, causal, complete
from edgewise.models.transformer_encoder import TransformerEncoder
from edgewise.ranges import checked
from edgewise.scores import Dot


@checked(depth=0, decoder_depth=0)
def t5(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    decoder_depth: int | None = None,
    heads: int = 4,
    head_width: int = 32,
    feed_forward: int = 512,
    gated: bool = False,
    buckets: int = 32,
    most_distant: int = 128,
    tied: bool = True,
    epsilon: float = 1e-6,
    dropout: float = 0.1,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> ew.PairModel:
    """States of target tokens; ``model.logits(states)`` are the scores of each next token."""
    options: dict[str, Any] = {"score": Dot(1.0), "bias": False, "dropout": dropout}
    attention = partial(ew.MultiHeadAttention, width, heads, head_width=head_width, **options)
    kind: Any = ew.GatedFeedForward if gated else partial(ew.FeedForward, bias=False)
    network = partial(kind, width, feed_forward, act="gelu_tanh" if gated else "relu")
    block: Any = {1: ew.AttentionBlock, 2: ew.CrossBlock}
    norm, sides = partial(nn.RMSNorm, eps=epsilon), []
    for parts, count, reads in ((1, depth, graph), (2, decoder_depth or depth, causal())):
        layers = []
        for _ in range(count):
            halves = [*(attention() for _ in range(parts)), network(dropout=dropout)]
            layers.append(block[parts](*halves, width, order="pre", norm=norm, dropout=dropout))
        stack = TransformerEncoder(layers, nn.Sequential(norm(width), nn.Dropout(dropout)), reads)
        relative = Buckets(heads, buckets, most_distant, both_ways=parts == 1)
        sides.append(ew.Reader(stack, reads, relative=relative))
    head = ew.LanguageHead(vocabulary, width, tied=tied, scale=width**-0.5 if tied else 1.0)
    words = ew.TextEmbedding(vocabulary, width, dropout=dropout)
    return ew.PairModel(words, ew.EncoderDecoder(*sides), head)
