"""Sliding-window attention pattern (Longformer, Beltagy et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise._utils.arguments import check_range
from edgewise.graphs.graph import OPERATIONS, Graph, Pattern
from edgewise.graphs.intervals import Intervals


@dataclass(frozen=True, repr=False)
class Window(Pattern):
    """Sliding window: each target attends to itself and to ``radius`` positions on either side.

    Neighbouring attended positions are ``dilation`` apart. ``causal() & window(r)`` is the sliding
    window of a language model. With ``window(0)``, each node attends only to itself.

    Example:
        >>> from edgewise import graphs
        >>> graphs.window(1).bind(4).dense().long()
        tensor([[1, 1, 0, 0],
                [1, 1, 1, 0],
                [0, 1, 1, 1],
                [0, 0, 1, 1]])
    """

    radius: int
    dilation: int = 1

    def __post_init__(self) -> None:
        check_range("radius", self.radius, "choose 0 for the node alone", least=0, integer=True)
        check_range(
            "dilation", self.dilation, "choose 1 for consecutive positions", least=1, integer=True
        )

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        position = torch.arange(num_targets) + self._sources_ahead(num_targets, num_sources)
        left = torch.div(position, self.dilation, rounding_mode="floor").clamp_(max=self.radius)
        start = position - left * self.dilation
        reach = min(self.radius * self.dilation, num_sources)  # The product may exceed 64 bits.
        stop = (position + reach + 1).clamp_(max=num_sources)
        return Intervals(start, stop, num_sources, step=self.dilation)


OPERATIONS.update(window=Window)
