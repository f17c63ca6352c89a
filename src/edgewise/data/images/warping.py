"""Training images that are a little different every time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def warped(images: Tensor, strength: float) -> Tensor:
    """Each of ``[B, C, H, W]`` under an affine map of its own, near the identity."""
    identity = torch.eye(2, 3).repeat(len(images), 1, 1)
    maps = identity + strength * (2 * torch.rand_like(identity) - 1)
    places = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images, places, align_corners=False)


def flipped(images: Tensor) -> Tensor:
    """Half of ``[B, C, H, W]``, at random, as in a mirror."""
    mirrored = torch.rand(len(images)) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(-1), images)
