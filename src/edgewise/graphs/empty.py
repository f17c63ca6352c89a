"""Pattern without edges."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise.graphs.graph import Graph, Intervals, Pattern


@dataclass(frozen=True, repr=False)
class Empty(Pattern):
    """Pattern without edges: attention returns zeros.

    With ``empty().with_self_loops()``, each node attends only to itself.

    Example:
        >>> from edgewise import graphs
        >>> graphs.empty().with_self_loops().bind(3).dense().long()
        tensor([[1, 0, 0],
                [0, 1, 0],
                [0, 0, 1]])
    """

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        start = torch.zeros(num_targets, dtype=torch.long)
        return Intervals(start, start, num_sources)
