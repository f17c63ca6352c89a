"""Patch embedding of images."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from edgewise._utils.arguments import check_divides
from edgewise._utils.errors import ArgumentError


class PatchEmbedding(nn.Module):
    """Linear map of each square patch of an image, in raster order (Dosovitskiy et al., 2021).

    The height and width of images, in pixels, are multiples of ``patch``.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> embedding = layers.PatchEmbedding(32, patch=8, channels=3, width=64)
        >>> embedding(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 16, 64])
    """

    def __init__(
        self, image_size: int | tuple[int, int], patch: int, channels: int, width: int
    ) -> None:
        super().__init__()
        height, image_width = image_size if isinstance(image_size, Sequence) else (image_size,) * 2
        for size, what in ((height, "the image's height"), (image_width, "the image's width")):
            check_divides("patch", patch, size, what, "choose another patch or crop the images")
        self.grid = height // patch, image_width // patch
        self.num_patches = self.grid[0] * self.grid[1]
        self.images = channels, height, image_width
        self.project = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)

    def forward(self, images: Tensor) -> Tensor:
        """Return patch features ``[B, patches, width]`` from images ``[B, C, height, width]``.

        Raises:
            ArgumentError: the images have the wrong size, number of channels, or an integer type.
        """
        if images.ndim != 4 or images.shape[1:] != self.images or not images.is_floating_point():
            shape = ", ".join(map(str, self.images))
            raise ArgumentError(
                "images",
                expected=f"shape [B, {shape}], in floating point",
                got=f"shape {list(images.shape)} in {images.dtype}",
                remedy="crop or resize the images, convert integers to floats from 0 to 1, and "
                "pass a single image as images[None]",
            )
        projected: Tensor = self.project(images)
        return projected.flatten(2).transpose(1, 2)
