r"""Masked autoencoder: an image's hidden patches from a quarter of them.

Formula: of noise per patch the least are seen; encode these alone; decode with a learned vector
    for each hidden one; loss = mean (pixels − predicted)² of hidden patches
Graph: complete, over the class token and the patches that are seen; then over all
Score: Dot (scaled), full projections
Normalisation: softmax over the neighbourhood; layer norm first
Update: residual, then a feed-forward network with a residual of its own
Encoding: sinusoids of row and column, which are not trained
Paper: He et al., Masked autoencoders are scalable vision learners, 2022
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from edgewise.arguments import check_divides, checked
from edgewise.errors import ArgumentError
from edgewise.graphs import complete
from edgewise.layers import ClassToken, PatchEmbedding, Pool
from edgewise.layers.pooling import Pooling
from edgewise.models.transformer_encoder import transformer_encoder

TINY = 1e-6
"""Added to the variance of a patch, some of which are of one colour."""


@checked(depth=0, decoder_depth=0)
def mae(
    image_size: int | tuple[int, int],
    channels: int,
    *,
    patch: int = 2,
    width: int = 64,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 128,
    decoder_width: int = 32,
    decoder_depth: int = 2,
    decoder_heads: int = 4,
    decoder_feed_forward: int = 64,
    act: str = "gelu",
    epsilon: float = 1e-6,
    mask_ratio: float = 0.75,
    normalised: bool = True,
) -> MaskedAutoencoder:
    """Build a masked autoencoder.

    Called as ``model(images, noise)``; predicts the pixels of the masked patches.

    Args:
        image_size: height and width in pixels, or one number for both.
        channels: number of channels of the images.
        patch: side of a square patch in pixels.
        width: hidden size of the encoder, a multiple of 4.
        depth: number of encoder layers.
        heads: number of attention heads per encoder layer.
        feed_forward: FFN dimension of the encoder.
        decoder_width: hidden size of the decoder, a multiple of 4; discarded after pre-training.
        decoder_depth: number of decoder layers.
        decoder_heads: number of attention heads per decoder layer.
        decoder_feed_forward: FFN dimension of the decoder.
        act: activation function of the feed-forward networks, by name.
        epsilon: epsilon of the layer norms.
        mask_ratio: fraction of patches that are masked.
        normalised: normalise the target pixels of each patch to mean 0 and variance 1.
    """
    if not 0 < mask_ratio < 1:
        raise ArgumentError(
            "mask_ratio",
            expected="a share between 0 and 1",
            got=repr(mask_ratio),
            remedy="choose 0.75, as the paper does",
        )
    patches = PatchEmbedding(image_size, patch, channels, width)
    norm = partial(nn.LayerNorm, eps=epsilon)
    encoder = transformer_encoder(
        width,
        depth=depth,
        heads=heads,
        feed_forward=feed_forward,
        act=act,
        order="pre",
        norm=norm,
        graph=complete(),
    )
    decoder = transformer_encoder(
        decoder_width,
        depth=decoder_depth,
        heads=decoder_heads,
        feed_forward=decoder_feed_forward,
        act=act,
        order="pre",
        norm=norm,
        graph=complete(),
    )
    return MaskedAutoencoder(
        patches,
        width,
        encoder,
        decoder_width,
        decoder,
        mask_ratio=mask_ratio,
        normalised=normalised,
    )


class MaskedAutoencoder(nn.Module):
    """An encoder of the patches that are seen, and a decoder of all.

    Args:
        patches: from images to patches.
        width: of the encoder's features.
        encoder: called ``encoder(x)``.
        decoder_width: of the decoder's features.
        decoder: called ``decoder(x)``.
        mask_ratio: the share of patches that are not seen.
        normalised: see :func:`mae`.
    """

    def __init__(
        self,
        patches: PatchEmbedding,
        width: int,
        encoder: nn.Module,
        decoder_width: int,
        decoder: nn.Module,
        *,
        mask_ratio: float,
        normalised: bool,
    ) -> None:
        super().__init__()
        self.patches, self.class_token = patches, ClassToken(width)
        self.positions = _Sinusoids(patches.grid, width)
        self.encoder = encoder
        self.narrow = nn.Linear(width, decoder_width)
        self.hidden_token = nn.Parameter(torch.empty(decoder_width))
        nn.init.normal_(self.hidden_token, std=0.02)
        self.decoder_positions = _Sinusoids(patches.grid, decoder_width)
        self.decoder = decoder
        self.side, self.channels = patches.project.kernel_size[0], patches.project.in_channels
        self.predict = nn.Linear(decoder_width, self.side**2 * self.channels)
        self.seen, self.normalised = int(patches.num_patches * (1 - mask_ratio)), normalised

    def forward(self, images: Tensor, noise: Tensor) -> Tensor:
        """The hidden patches as predicted, ``[B, hidden, patch² · C]``, by their noise.

        Args:
            images: ``[B, C, height, width]``.
            noise: ``[B, patches]``, in raster order: the patches of the least are seen.
        """
        order = self._order(images, noise)
        seen, unseen = order[:, : self.seen], order[:, self.seen :]
        x = self.patches(images) + self.positions.table[1:]
        x = self.class_token(x.gather(1, seen[..., None].expand(-1, -1, x.shape[-1])))
        first = torch.zeros_like(seen[:, :1])
        x = torch.cat([x[:, :1] + self.positions.table[0], x[:, 1:]], 1)
        states = self.narrow(self.encoder(x))
        # Back in their places, with the learned vector where nothing was seen.
        places = torch.cat([first, seen + 1], 1)[..., None].expand(-1, -1, states.shape[-1])
        blank = self.hidden_token.to(states).expand(len(x), self.patches.num_patches + 1, -1)
        whole = self.decoder(self.decoder_positions(blank.scatter(1, places, states)))
        predicted: Tensor = self.predict(whole[:, 1:])
        return _taken(predicted, unseen)

    def targets(self, images: Tensor, noise: Tensor) -> Tensor:
        """What the hidden patches are, in the form of the predictions."""
        unseen = self._order(images, noise)[:, self.seen :]
        squares = images.unfold(2, self.side, self.side).unfold(3, self.side, self.side)
        pixels = squares.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
        if self.normalised:
            variance, mean = torch.var_mean(pixels, -1, keepdim=True)
            pixels = (pixels - mean) / (variance + TINY).sqrt()
        return _taken(pixels, unseen)

    def loss(self, images: Tensor, noise: Tensor) -> Tensor:
        """The mean squared error of the hidden patches' pixels; 0 where there are none."""
        predicted: Tensor = self(images, noise)
        if not predicted.numel():
            return predicted.sum()  # the mean of nothing is NaN
        return nn.functional.mse_loss(predicted, self.targets(images, noise))

    def classifier(self, out_width: int, *, pool: Pooling = "class") -> nn.Sequential:
        """A ``vit`` on this encoder, which it shares, with a new head: to be fine-tuned.

        Called ``model(images [B, C, height, width])``, of the same size; the positions stay.
        """
        width = self.positions.table.shape[1]
        head = nn.Linear(width, out_width)
        return nn.Sequential(
            self.patches,
            self.class_token,
            self.positions,
            nn.Dropout(0.0),
            self.encoder,
            Pool(pool),
            head,
        )

    def _order(self, images: Tensor, noise: Tensor) -> Tensor:
        wanted = len(images), self.patches.num_patches
        if tuple(noise.shape) != wanted:
            raise ArgumentError(
                "noise",
                expected=f"shape {list(wanted)}, a number for each patch",
                got=f"shape {list(noise.shape)}",
                remedy="draw it with torch.rand",
            )
        return noise.argsort(1)


def _taken(x: Tensor, places: Tensor) -> Tensor:
    return x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))


class _Sinusoids(nn.Module):
    """Adds sinusoids of a patch's column and row; the class token's are 0.

    Args:
        grid: rows and columns.
        width: of the features: a quarter each for sine and cosine of the column, then of the row.
    """

    table: Tensor

    def __init__(self, grid: tuple[int, int], width: int) -> None:
        super().__init__()
        check_divides("4", 4, width, "the width", "choose a multiple of 4")
        rate = 1e4 ** -(torch.arange(width // 4) / (width // 4))
        row, column = (torch.arange(count)[:, None] * rate for count in grid)
        angles = column.repeat(grid[0], 1), row.repeat_interleave(grid[1], 0)
        waves = [wave(angle) for angle in angles for wave in (torch.sin, torch.cos)]
        self.register_buffer("table", nn.functional.pad(torch.cat(waves, 1), (0, 0, 1, 0)))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table
