"""Random augmentation of training images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.batches import Batch
from edgewise.data.splits import Split


def affine_maps(count: int, strength: float) -> Tensor:
    """Return random affine maps ``[count, 2, 3]`` near the identity, for coordinates -1 to 1."""
    identity = torch.eye(2, 3).repeat(count, 1, 1)
    return identity + strength * (2 * torch.rand_like(identity) - 1)


def warped(images: Tensor, strength: float) -> Tensor:
    """Apply a random affine map to each image of ``[B, C, H, W]``."""
    maps = affine_maps(len(images), strength)
    places = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images, places, align_corners=False)


def flipped(images: Tensor) -> Tensor:
    """Mirror each image of ``[B, C, H, W]`` with probability 1/2."""
    mirrored = torch.rand(len(images)) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(-1), images)


def warped_split(images: Tensor, labels: Tensor, strength: float = 0.0) -> Split:
    """Return a split of images ``[N, C, H, W]``, randomly warped in every batch.

    Images are numbers from 0 to 1, or bytes.
    """

    def make(index: Tensor) -> Batch:
        chosen = images[index]
        chosen = chosen / 255 if chosen.dtype == torch.uint8 else chosen
        return Batch((warped(chosen, strength) if strength else chosen,), labels[index])

    return Split(len(labels), make)
