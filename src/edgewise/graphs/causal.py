"""Causal attention pattern, as in language models."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise.graphs.graph import Graph, Intervals, Pattern


@dataclass(frozen=True, repr=False)
class Causal(Pattern):
    """Causal attention: each target attends to its own and all preceding positions.

    If there are fewer targets than sources, the targets are the last positions. Decoding one token
    with a key-value cache therefore uses one target and n sources.

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
