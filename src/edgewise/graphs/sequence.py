"""Attention patterns of sequences: full, causal, block-diagonal and empty."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise._utils.arguments import check_range
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


@dataclass(frozen=True, repr=False)
class Causal(Pattern):
    """Causal attention: each target attends to its own and all preceding positions.

    If there are fewer targets than sources, the targets are the last positions.

    Example:
        >>> from edgewise import graphs
        >>> graphs.causal().bind(3).dense().long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]])
    """

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        ahead = self._sources_ahead(num_targets, num_sources)
        stop = torch.arange(num_targets) + ahead + 1
        return Intervals(torch.zeros_like(stop), stop, num_sources)


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
        check_range("size", self.size, "pass the number of nodes in a block", least=1, integer=True)

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        position = torch.arange(num_targets) + self._sources_ahead(num_targets, num_sources)
        start = torch.div(position, self.size, rounding_mode="floor") * self.size
        return Intervals(start, (start + self.size).clamp_(max=num_sources), num_sources)


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
