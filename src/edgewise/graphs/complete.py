"""Full attention pattern, as in the Transformer (Vaswani et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise.graphs.graph import Graph, Intervals, Pattern


@dataclass(frozen=True, repr=False)
class Complete(Pattern):
    """Full attention: every target attends to every source, also for cross-attention.

    Example:
        >>> from edgewise import graphs
        >>> graphs.complete().bind(2, 3).dense().long()
        tensor([[1, 1, 1],
                [1, 1, 1]])
    """

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        start = torch.zeros(num_targets, dtype=torch.long)
        return Intervals(start, torch.full_like(start, num_sources), num_sources)
