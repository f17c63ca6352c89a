"""Patch embedding of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from torch import Tensor, nn

from edgewise._utils.arguments import check_choice, check_divides
from edgewise._utils.errors import ArgumentError

Stem = Literal["linear", "convolutions"]


class PatchEmbedding(nn.Module):
    """Embedding of the square patches of an image, in raster order.

    The height and width of images, in pixels, are multiples of ``patch``.

    Args:
        stem: "linear" for a linear map of the pixels of each patch (Dosovitskiy et al., An image is
            worth 16x16 words, 2021), or "convolutions", which also see pixels around a patch: for a
            patch of 2ᵏ pixels, k times a 3 × 3 convolution, ReLU, and the maximum of 3 × 3 pixels
            with a stride of 2 (Hassani et al., Escaping the big data paradigm with compact
            transformers, 2021).

    Raises:
        ArgumentError: ``patch`` does not divide the size, or is no power of 2 with convolutions.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> embedding = layers.PatchEmbedding(32, patch=8, channels=3, width=64)
        >>> embedding(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 16, 64])
    """

    def __init__(
        self,
        image_size: int | tuple[int, int],
        patch: int,
        channels: int,
        width: int,
        *,
        stem: Stem = "linear",
    ) -> None:
        super().__init__()
        check_choice("stem", stem, get_args(Stem))
        height, image_width = image_size if isinstance(image_size, Sequence) else (image_size,) * 2
        for size, what in ((height, "the image's height"), (image_width, "the image's width")):
            check_divides("patch", patch, size, what, "choose another patch or crop the images")
        self.grid = height // patch, image_width // patch
        self.num_patches = self.grid[0] * self.grid[1]
        self.images = channels, height, image_width
        self.project: nn.Module
        if stem == "linear":
            self.project = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)
        else:
            self.project = _convolutions(patch, channels, width)

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


def _convolutions(patch: int, channels: int, width: int) -> nn.Sequential:
    """Return a convolutional tokenizer; each stage halves the height and width of its input."""
    stages = patch.bit_length() - 1
    if patch != 2**stages or not stages:
        raise ArgumentError(
            "patch",
            expected='a power of 2, at least 2, with stem="convolutions"',
            got=repr(patch),
            remedy="choose for example 4",
        )
    layers: list[nn.Module] = []
    for _ in range(stages):
        convolution = nn.Conv2d(channels, width, kernel_size=3, padding=1, bias=False)
        layers += [convolution, nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
        channels = width
    return nn.Sequential(*layers)
