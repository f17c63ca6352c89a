"""Nobody reads anybody: every node is on its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise.graphs.graph import Graph, Pattern
from edgewise.graphs.intervals import Intervals


@dataclass(frozen=True, repr=False)
class Empty(Pattern):
    """No edges at all, so that attention gives zeros; ``with_self_loops`` gives the identity."""

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        start = torch.zeros(num_targets, dtype=torch.long)
        return Intervals(start, start, num_sources)
