"""Vision Transformer on any graph of patches.

Formula: linear map of patches, or convolutions; Transformer encoder; pooling; linear classifier
Graph: complete by default, or any pattern over the patches in raster order
Score: ``Dot`` (scaled dot product); each head projects all features
Normalisation: softmax over the neighbourhood; layer norm before each sublayer
Update: residual connections around attention and around the feed-forward network
Encoding: learned positions
Paper: Dosovitskiy et al., An image is worth 16x16 words, 2021
"""

from __future__ import annotations

from torch import nn

from edgewise.encodings import Learned
from edgewise.graphs import Pattern, complete, virtual
from edgewise.layers import ClassToken, PatchEmbedding, Pool
from edgewise.layers.patches import Stem
from edgewise.layers.pooling import Pooling
from edgewise.layers.transformer import Norm, Projections
from edgewise.models.arguments import model_function
from edgewise.models.transformer_encoder import transformer_encoder


@model_function(depth=0)
def vit(
    image_size: int | tuple[int, int],
    channels: int,
    out_width: int,
    *,
    patch: int = 2,
    stem: Stem = "linear",
    width: int = 64,
    depth: int = 4,
    heads: int = 4,
    ffn_dim: int = 128,
    act: str = "gelu",
    projections: Projections = "full",
    norm: Norm = "layer",
    dropout: float = 0.0,
    pool: Pooling = "mean",
    position_std: float = 0.02,
    graph: Pattern = complete(),
) -> nn.Sequential:
    """Build a Vision Transformer.

    Called as ``model(images [B, channels, height, width])``. With ``pool="class"``, for any graph,
    the class token attends to all patches, and all patches attend to it.

    Args:
        stem: embedding of the patches, "linear" or "convolutions"; see
            :class:`edgewise.layers.PatchEmbedding`. Convolutions are better with few images.
        pool: readout of the patch states, such as "mean", or "class" for a class token.
        position_std: standard deviation of the initial position vectors.
        graph: attention graph of the patches in raster order.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.vit(32, 3, 10, patch=4)
        >>> model(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    patches = PatchEmbedding(image_size, patch, channels, width, stem=stem)
    class_token = [ClassToken(width)] if pool == "class" else []
    encoder = transformer_encoder(
        width,
        depth=depth,
        heads=heads,
        ffn_dim=ffn_dim,
        act=act,
        projections=projections,
        order="pre",
        norm=norm,
        dropout=dropout,
        graph=virtual(graph) if class_token else graph,
    )
    positions = Learned(patches.num_patches + len(class_token), width, std=position_std)
    head = nn.Linear(width, out_width)
    return nn.Sequential(
        patches, *class_token, positions, nn.Dropout(dropout), encoder, Pool(pool), head
    )
