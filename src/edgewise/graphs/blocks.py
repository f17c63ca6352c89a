"""Block-diagonal attention pattern, like the windows of Swin in one dimension."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise._utils.arguments import check_count
from edgewise.graphs.graph import Graph, Intervals, Pattern


@dataclass(frozen=True, repr=False)
class Blocks(Pattern):
    """Attention within blocks of ``size`` consecutive positions; the last block may be shorter.

    Example:
        >>> from edgewise import graphs
        >>> graphs.blocks(2).bind(4).dense().long()
        tensor([[1, 1, 0, 0],
                [1, 1, 0, 0],
                [0, 0, 1, 1],
                [0, 0, 1, 1]])
    """

    size: int

    def __post_init__(self) -> None:
        check_count("size", self.size, 1, "pass the number of nodes in a block")

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        position = torch.arange(num_targets) + self._sources_ahead(num_targets, num_sources)
        start = torch.div(position, self.size, rounding_mode="floor") * self.size
        return Intervals(start, (start + self.size).clamp_(max=num_sources), num_sources)
