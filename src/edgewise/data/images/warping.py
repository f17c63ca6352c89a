"""Training images that are a little different every time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.batches import Batch
from edgewise.data.splits import Split


def affine_maps(count: int, strength: float) -> Tensor:
    """``[count, 2, 3]``, near the identity, of places from -1 to 1; the last column moves them."""
    identity = torch.eye(2, 3).repeat(count, 1, 1)
    return identity + strength * (2 * torch.rand_like(identity) - 1)


def warped(images: Tensor, strength: float) -> Tensor:
    """Each of ``[B, C, H, W]`` under an affine map of its own, near the identity."""
    maps = affine_maps(len(images), strength)
    places = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images, places, align_corners=False)


def flipped(images: Tensor) -> Tensor:
    """Half of ``[B, C, H, W]``, at random, as in a mirror."""
    mirrored = torch.rand(len(images)) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(-1), images)


def warped_split(images: Tensor, labels: Tensor, strength: float = 0.0) -> Split:
    """Images ``[N, C, H, W]``, from 0 to 1 or in bytes, and labels; each batch warped anew."""

    def make(index: Tensor) -> Batch:
        chosen = images[index]
        chosen = chosen / 255 if chosen.dtype == torch.uint8 else chosen
        return Batch((warped(chosen, strength) if strength else chosen,), labels[index])

    return Split(len(labels), make)
