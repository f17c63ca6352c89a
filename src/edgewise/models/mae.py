r"""Masked autoencoder: predicts the masked patches of an image from the visible patches.

Formula: encode visible patches; decode with a mask token for each masked patch; mean (pixels − ŷ)²
Graph: encoder complete over class token and visible patches; decoder over class token, all patches
Score: ``Dot`` (scaled dot product); each head projects all features
Normalisation: softmax over the neighbourhood; layer norm before each sublayer
Update: residual connections around attention and around the feed-forward network
Encoding: fixed sinusoids of row and column
Paper: He et al., Masked autoencoders are scalable vision learners, 2022
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_divides
from edgewise._utils.errors import ArgumentError
from edgewise.graphs import complete
from edgewise.layers import ClassToken, PatchEmbedding, Pool
from edgewise.layers.pooling import Pooling
from edgewise.models.arguments import model_factory
from edgewise.models.transformer_encoder import transformer_encoder

TINY = 1e-6
"""Constant added to the variance of a patch, which is 0 for a patch of one colour."""


class MaskedAutoencoder(nn.Module):
    """Masked autoencoder: encoder of visible patches and decoder of all patches.

    Called as ``model(images, noise)``; predicts the pixels of the masked patches.

    Args:
        width: hidden size of the encoder, a multiple of 4.
        decoder_width: hidden size of the decoder, a multiple of 4. The decoder is used only in
            pre-training.
        decoder_depth: number of decoder layers.
        decoder_heads: number of attention heads per decoder layer.
        decoder_ffn_dim: FFN dimension of the decoder.
        mask_ratio: fraction of patches that are masked, rounded up to whole patches.
        normalised: normalise the target pixels of each patch to mean 0 and variance 1.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.mae(32, 3, patch=4)
        >>> images, noise = torch.randn(2, 3, 32, 32), torch.rand(2, 64)
        >>> model(images, noise).shape  # 48 masked patches of 4 · 4 · 3 numbers
        torch.Size([2, 48, 48])
    """

    def __init__(
        self,
        image_size: int | tuple[int, int],
        channels: int,
        *,
        patch: int = 2,
        width: int = 64,
        depth: int = 4,
        heads: int = 4,
        ffn_dim: int = 128,
        decoder_width: int = 32,
        decoder_depth: int = 2,
        decoder_heads: int = 4,
        decoder_ffn_dim: int = 64,
        act: str = "gelu",
        epsilon: float = 1e-6,
        mask_ratio: float = 0.75,
        normalised: bool = True,
    ) -> None:
        super().__init__()
        if not 0 < mask_ratio < 1:
            raise ArgumentError(
                "mask_ratio",
                expected="a fraction between 0 and 1",
                got=repr(mask_ratio),
                remedy="choose for example 0.75, as in the paper",
            )
        patches = PatchEmbedding(image_size, patch, channels, width)
        norm = partial(nn.LayerNorm, eps=epsilon)
        encoder = transformer_encoder(
            width,
            depth=depth,
            heads=heads,
            ffn_dim=ffn_dim,
            act=act,
            order="pre",
            norm=norm,
            graph=complete(),
        )
        decoder = transformer_encoder(
            decoder_width,
            depth=decoder_depth,
            heads=decoder_heads,
            ffn_dim=decoder_ffn_dim,
            act=act,
            order="pre",
            norm=norm,
            graph=complete(),
        )
        self.patches, self.class_token = patches, ClassToken(width)
        self.positions = _Sinusoids(patches.grid, width)
        self.encoder = encoder
        self.narrow = nn.Linear(width, decoder_width)
        self.hidden_token = nn.Parameter(torch.empty(decoder_width))
        nn.init.normal_(self.hidden_token, std=0.02)
        self.decoder_positions = _Sinusoids(patches.grid, decoder_width)
        self.decoder = decoder
        self.side, self.channels = patch, channels
        self.predict = nn.Linear(decoder_width, self.side**2 * self.channels)
        self.num_visible, self.normalised = int(patches.num_patches * (1 - mask_ratio)), normalised

    def forward(self, images: Tensor, noise: Tensor) -> Tensor:
        """Return predictions ``[B, masked, patch² · C]`` of the masked patches, sorted by noise.

        ``noise`` has a random number for each patch, ``[B, patches]``; the lowest stay visible.
        """
        order = self._order(images, noise)
        visible, masked = order[:, : self.num_visible], order[:, self.num_visible :]
        x = _gather_patches(self.patches(images) + self.positions.table[1:], visible)
        x = self.class_token(x)
        x = torch.cat([x[:, :1] + self.positions.table[0], x[:, 1:]], 1)
        states = self.narrow(self.encoder(x))
        # Scatter the encoded tokens among mask tokens, in raster order after the class token.
        index = torch.cat([torch.zeros_like(visible[:, :1]), visible + 1], 1)
        index = index[..., None].expand(-1, -1, states.shape[-1])
        tokens = self.hidden_token.to(states).expand(len(x), self.patches.num_patches + 1, -1)
        decoded = self.decoder(self.decoder_positions(tokens.scatter(1, index, states)))
        predicted: Tensor = self.predict(decoded[:, 1:])
        return _gather_patches(predicted, masked)

    def targets(self, images: Tensor, noise: Tensor) -> Tensor:
        """Return the target pixels of the masked patches, in the shape of the predictions."""
        masked = self._order(images, noise)[:, self.num_visible :]
        squares = images.unfold(2, self.side, self.side).unfold(3, self.side, self.side)
        pixels = squares.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
        if self.normalised:
            variance, mean = torch.var_mean(pixels, -1, keepdim=True)
            pixels = (pixels - mean) / (variance + TINY).sqrt()
        return _gather_patches(pixels, masked)

    def loss(self, images: Tensor, noise: Tensor) -> Tensor:
        """Return the mean squared error over the pixels of masked patches; 0 if there are none."""
        predicted: Tensor = self(images, noise)
        if not predicted.numel():
            return predicted.sum()  # The mean of an empty tensor would be NaN.
        return nn.functional.mse_loss(predicted, self.targets(images, noise))

    def classifier(self, out_width: int, *, pool: Pooling = "class") -> nn.Sequential:
        """Return a Vision Transformer with this encoder (shared, not copied) and a new head."""
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
        """Return patch indices ``[B, patches]``, sorted by noise."""
        expected = len(images), self.patches.num_patches
        if tuple(noise.shape) != expected:
            raise ArgumentError(
                "noise",
                expected=f"shape {list(expected)}, one number per patch",
                got=f"shape {list(noise.shape)}",
                remedy="sample noise with torch.rand(number of images, number of patches)",
            )
        return noise.argsort(1)


mae = model_factory(MaskedAutoencoder, depth=0, decoder_depth=0)


def _gather_patches(x: Tensor, index: Tensor) -> Tensor:
    """Return the patches ``[B, n, width]`` at these indices ``[B, n]``."""
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[-1]))


class _Sinusoids(nn.Module):
    """Fixed 2-D sinusoidal positions, added to the features; zero for the class token."""

    table: Tensor

    def __init__(self, grid: tuple[int, int], width: int) -> None:
        super().__init__()
        check_divides("width", 4, width, "the width", "choose a width that is a multiple of 4")
        rate = 1e4 ** -(torch.arange(width // 4) / (width // 4))
        row, column = (torch.arange(count)[:, None] * rate for count in grid)
        angles = column.repeat(grid[0], 1), row.repeat_interleave(grid[1], 0)
        waves = [wave(angle) for angle in angles for wave in (torch.sin, torch.cos)]
        self.register_buffer("table", nn.functional.pad(torch.cat(waves, 1), (0, 0, 1, 0)))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table
