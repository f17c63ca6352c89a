"""No node reads the future: the graph of a language model."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise.graphs.graph import Graph, Pattern
from edgewise.graphs.intervals import Intervals


@dataclass(frozen=True, repr=False)
class Causal(Pattern):
    """Each target reads the sources up to its own position, itself included.

    With fewer targets than sources, the targets are the last positions: binding it to one target
    and n sources is a step of cached decoding.
    """

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        ahead = self._sources_ahead(num_targets, num_sources)
        stop = torch.arange(num_targets) + ahead + 1
        return Intervals(torch.zeros_like(stop), stop, num_sources)
