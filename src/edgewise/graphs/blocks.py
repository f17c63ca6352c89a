"""Consecutive blocks that read only themselves (Swin's windows in one dimension)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise.arguments import check_count
from edgewise.graphs.graph import Graph, Pattern
from edgewise.graphs.intervals import Intervals


@dataclass(frozen=True, repr=False)
class Blocks(Pattern):
    """Positions ``k * size`` to ``(k + 1) * size - 1`` read each other; the last may be shorter."""

    size: int

    def __post_init__(self) -> None:
        check_count("size", self.size, 1, "pass how many consecutive nodes read each other")

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        position = torch.arange(num_targets) + self._sources_ahead(num_targets, num_sources)
        start = torch.div(position, self.size, rounding_mode="floor") * self.size
        return Intervals(start, (start + self.size).clamp_(max=num_sources), num_sources)
