"""Layout of the nodes of a graph in the plane, without optional packages."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SMOOTHING = 60
STEPS = 120
REPELLED = 12
"""Number of random nodes that repel each node in a step."""


def force_layout(
    source: NDArray[Any], target: NDArray[Any], count: int, seed: int = 0
) -> NDArray[np.float32]:
    """Return coordinates ``[count, 2]`` in which neighbours are near each other, as in UMAP."""
    generator = torch.Generator().manual_seed(seed)
    keys = np.unique(np.minimum(source, target) * count + np.maximum(source, target))
    ends = torch.from_numpy(np.stack([keys // count, keys % count]))
    pairs = ends[:, ends[0] != ends[1]]
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    degree = torch.bincount(both[0], minlength=count).float()
    xy = _smoothed(both, degree, torch.randn(count, 2, generator=generator))
    steps = STEPS if count + len(pairs[0]) < 60_000 else STEPS // 4
    for step in range(steps):
        move = torch.zeros(count, 2)
        gap = xy[pairs[1]] - xy[pairs[0]]
        pull = gap / (1.0 + gap.square().sum(1, keepdim=True)).sqrt()
        move.index_add_(0, pairs[0], pull).index_add_(0, pairs[1], -pull)
        move /= degree.clamp(min=1.0).sqrt()[:, None]
        for _ in range(REPELLED):
            gap = xy - xy[torch.randint(count, (count,), generator=generator)]
            move += gap * (1.2 / (0.05 + gap.square().sum(1, keepdim=True)))
        move -= 0.02 * xy  # A pull to the centre keeps components together.
        length = move.norm(dim=1, keepdim=True).clamp(min=1e-9)
        xy = xy + move * (length.clamp(max=2.0) / length) * (0.25 * (1 - step / steps) + 0.01)
    centre = xy.median(0).values
    reach = (xy - centre).norm(dim=1)
    limit = float(reach.quantile(0.98)) if count < 1_000_000 else float(reach.max())
    # Far components are moved closer, so that the other components have room.
    far = (reach / max(limit, 1e-9)).clamp(min=1.0)
    placed: Tensor = centre + (xy - centre) * ((1 + far.log()) / far)[:, None]
    return placed.numpy()


def _smoothed(both: Tensor, degree: Tensor, xy: Tensor) -> Tensor:
    """Smooth the coordinates of nodes by repeated averages over neighbours, on orthogonal axes."""
    size = float(max(len(degree), 1)) ** 0.5
    for _ in range(SMOOTHING):
        mean = torch.zeros_like(xy).index_add_(0, both[0], xy[both[1]])
        xy = 0.5 * xy + 0.5 * mean / degree.clamp(min=1.0)[:, None]
        xy = xy - xy.mean(0)
        first = xy[:, 0] / xy[:, 0].norm().clamp(min=1e-9)
        second = xy[:, 1] - first * (first @ xy[:, 1])
        xy = torch.stack([first, second / second.norm().clamp(min=1e-9)], dim=1) * size
    return xy
