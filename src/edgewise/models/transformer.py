"""The Transformer: an encoder, and a decoder that reads its own past and the encoder's output.

Formula: x = norm(x + attention(x)); y likewise, then y = norm(y + attention(y, x)); FFN after each
Graph: encoder complete, decoder causal, between them complete bipartite; any pattern
Score: Dot (scaled), full projections; or bilinear, tanh MLP, concatenation
Encoding: sinusoidal, on both sides
Normalisation: softmax over the neighbourhood; layer norm, post or pre
Update: residual, then a feed-forward network with a residual of its own
Paper: Vaswani et al., Attention is all you need, 2017
"""

from __future__ import annotations

from typing import Any

from torch import nn

from edgewise import layers as ew
from edgewise.encodings import Sinusoidal
from edgewise.graphs import Pattern, causal, complete
from edgewise.layers.block import Order
from edgewise.models.transformer_encoder import TransformerEncoder
from edgewise.ranges import checked


@checked(depth=0)
def transformer(
    vocabulary: int,
    *,
    target_vocabulary: int | None = None,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 512,
    dropout: float = 0.1,
    last_norm: bool | None = None,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
    decoder_graph: Pattern = causal(),  # noqa: B008
    act: str = "relu",
    score: str = "dot",
    order: Order = "post",
) -> ew.PairModel:
    """States of target tokens; one vocabulary for both texts, unless the target has its own.

    ``last_norm``: after the last layers, as in ``torch.nn.Transformer``; by default if ``"pre"``.
    """
    last_norm = order == "pre" if last_norm is None else last_norm
    layer: dict[str, Any] = {"act": act, "score": score, "order": order, "dropout": dropout}
    readers = []
    for kind, reads in ((ew.TransformerLayer, graph), (ew.DecoderLayer, decoder_graph)):
        stacked = [kind(width, heads, feed_forward, **layer) for _ in range(depth)]
        norm = nn.LayerNorm(width) if last_norm else nn.Identity()
        readers.append(ew.Reader(TransformerEncoder(stacked, norm, reads), reads))
    ew.xavier_start(core := ew.EncoderDecoder(*readers))
    scaled: dict[str, Any] = {"width": width, "dropout": dropout, "scale": width**0.5}
    source, *target = (
        ew.TextEmbedding(n, positions=Sinusoidal(width), **scaled)
        for n in (vocabulary, target_vocabulary)
        if n is not None
    )
    head = ew.LanguageHead(target_vocabulary or vocabulary, width)
    return ew.PairModel(source, core, head, target_embedding=next(iter(target), None))
