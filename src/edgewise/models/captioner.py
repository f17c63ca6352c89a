"""Captioner: a Vision Transformer's patches are what a decoder reads to write a caption.

Formula: z = Transformer(patches); y = norm(y + attention(y)), then attention(y, z), then FFN
Graph: patches complete, words causal, between them complete bipartite; any pattern of the patches
Score: Dot (scaled), full projections
Encoding: learned, by row and column for patches, by place for words
Normalisation: softmax over the neighbourhood; layer norm, pre
Update: residual, then a feed-forward network (GELU) with a residual of its own
Paper: Cornia et al., Meshed-memory transformer for image captioning, 2020 (without the mesh)
"""

from __future__ import annotations

from torch import nn

from edgewise import layers as ew
from edgewise.encodings import Learned, Learned2d
from edgewise.graphs import Pattern, causal, complete
from edgewise.models.transformer_encoder import TransformerEncoder
from edgewise.ranges import checked

PLACE = 0.5  # of positions at first: much smaller, and words are late to learn where to look


@checked(depth=0, decoder_depth=0)
def captioner(
    image_height: int,
    image_width: int,
    channels: int,
    vocabulary: int,
    length: int,
    *,
    patch: int = 7,
    width: int = 64,
    depth: int = 4,
    decoder_depth: int = 2,
    heads: int = 4,
    feed_forward: int = 128,
    dropout: float = 0.0,
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> ew.Captioner:
    """Scores of captions of at most ``length`` words; ``model(images, ids)``."""
    patches = ew.PatchEmbedding((image_height, image_width), patch, channels, width)
    stacks = []
    for kind, count, reads in (
        (ew.TransformerLayer, depth, graph),
        (ew.DecoderLayer, decoder_depth, causal()),
    ):
        layer = [
            kind(width, heads, feed_forward, act="gelu", order="pre", dropout=dropout)
            for _ in range(count)
        ]
        stacks.append(TransformerEncoder(layer, nn.LayerNorm(width), reads))
    place = Learned2d(*patches.grid, width, std=PLACE)
    eyes = nn.Sequential(patches, place, nn.Dropout(dropout), stacks[0])
    at = Learned(length, width, std=PLACE)
    words = ew.TextEmbedding(vocabulary, width, positions=at, dropout=dropout)
    nn.init.normal_(words.tokens.weight, std=width**-0.5)
    head = ew.LanguageHead(vocabulary, width)
    for stack in stacks:
        ew.xavier_start(stack)
    return ew.Captioner(eyes, ew.TextModel(words, ew.Reader(stacks[1], causal()), head))
