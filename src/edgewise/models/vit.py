"""Vision Transformer, on any graph of patches.

Formula: patches are words; a Transformer encoder; pool; classify
Graph: complete by default; any pattern over the patches, in raster order
Score: Dot (scaled), full projections
Normalisation: softmax over the neighbourhood; layer norm first
Update: residual, then a feed-forward network with a residual of its own
Encoding: learned positions
Paper: Dosovitskiy et al., An image is worth 16x16 words, 2021
"""

from __future__ import annotations

from torch import nn

from edgewise.encodings import Learned
from edgewise.graphs import Pattern, complete, virtual
from edgewise.layers import ClassToken, PatchEmbedding, Pool
from edgewise.layers.block import Norm
from edgewise.layers.pooling import Pooling
from edgewise.models.transformer_encoder import transformer_encoder
from edgewise.ranges import checked


@checked(depth=0)
def vit(
    image_size: int,
    channels: int,
    out_width: int,
    *,
    patch: int = 2,
    width: int = 64,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 128,
    act: str = "gelu",
    norm: Norm = "layer",
    dropout: float = 0.0,
    pool: Pooling = "mean",
    graph: Pattern = complete(),  # noqa: B008 - patterns are immutable
) -> nn.Sequential:
    """Class scores of images; called ``model(images [B, channels, image_size, image_size])``.

    With ``pool="class"`` a class token reads, and is read by, all patches, whatever the graph.
    """
    patches = PatchEmbedding(image_size, patch, channels, width)
    token = [ClassToken(width)] if pool == "class" else []
    encoder = transformer_encoder(
        width,
        depth=depth,
        heads=heads,
        feed_forward=feed_forward,
        act=act,
        order="pre",
        norm=norm,
        dropout=dropout,
        graph=virtual(graph) if token else graph,
    )
    positions = Learned(patches.num_patches + len(token), width)
    head = nn.Linear(width, out_width)
    return nn.Sequential(patches, *token, positions, nn.Dropout(dropout), encoder, Pool(pool), head)
