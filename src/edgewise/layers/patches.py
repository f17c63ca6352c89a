"""Images as nodes: each patch is a word."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.errors import ArgumentError


class PatchEmbedding(nn.Module):
    """A linear map of every ``patch × patch`` square, in raster order (Dosovitskiy et al., 2021).

    Args:
        image_size: height and width in pixels, a multiple of ``patch``.
        patch: side of a square in pixels.
        channels: C.
        width: of the features that come out.
    """

    def __init__(self, image_size: int, patch: int, channels: int, width: int) -> None:
        super().__init__()
        if image_size % patch:
            raise ArgumentError(
                "patch",
                expected=f"a divisor of the image size {image_size}",
                got=repr(patch),
                remedy="choose another patch or crop the images",
            )
        self.num_patches = (image_size // patch) ** 2
        self.project = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)

    def forward(self, images: Tensor) -> Tensor:
        """``[B, patches, width]`` from images ``[B, C, image_size, image_size]``."""
        projected: Tensor = self.project(images)
        return projected.flatten(2).transpose(1, 2)
