"""Graphs in which every target reads one run of positions: most patterns are of this form."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise.graphs.graph import Graph
from edgewise.modes import outside_modes


class Intervals(Graph):
    """Target i reads ``start[i], start[i] + step, ...`` as long as they are below ``stop[i]``.

    Complete, causal, windowed, dilated and blocked attention, packed batches of them, and pooling
    are all such graphs. They need O(n) memory however many edges they have, and engines can see
    their shape. The edges are ordered by target and then by source.
    """

    def __init__(
        self,
        start: Tensor,
        stop: Tensor,
        num_sources: int,
        *,
        step: int = 1,
        segments: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__(start.shape[0], num_sources)
        with outside_modes():
            self.start, self.stop = start.clone(), torch.maximum(start, stop)
        self.step = step
        self.segments = segments

    def in_degree(self) -> Tensor:
        return torch.div(self.stop - self.start + self.step - 1, self.step, rounding_mode="floor")

    @property
    def num_edges(self) -> int:
        return self.cached("num_edges", lambda: int(self.in_degree().sum()))

    @property
    def edge_index(self) -> Tensor:
        return self.cached("edge_index", self._list_edges)

    @property
    def device(self) -> torch.device:
        return self.start.device

    @property
    def is_complete(self) -> bool:
        """Whether every target reads every source."""
        return self.num_edges == self.num_targets * self.num_sources

    @property
    def is_causal(self) -> bool:
        """Whether target i reads exactly the sources 0 to i, the square lower triangle."""
        node = torch.arange(self.num_targets, device=self.device)
        return self.cached(
            "is_causal",
            lambda: (
                self.num_targets == self.num_sources
                and self.step == 1
                and bool((self.start == 0).all())
                and bool((self.stop == node + 1).all())
            ),
        )

    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        start = self.start[target]
        inside = (source >= start) & (source < self.stop[target])
        return inside if self.step == 1 else inside & ((source - start) % self.step == 0)

    def _list_edges(self) -> Tensor:
        degree = self.in_degree()
        node = torch.arange(self.num_targets, device=self.device)
        target = node.repeat_interleave(degree)
        first = (degree.cumsum(0) - degree)[target]
        rank = torch.arange(target.numel(), device=self.device) - first
        return torch.stack([self.start[target] + self.step * rank, target])

    def _moved(self, device: torch.device) -> Graph:
        segments = self.segments
        moved = (segments[0].to(device), segments[1].to(device)) if segments else None
        start, stop = self.start.to(device), self.stop.to(device)
        return Intervals(start, stop, self.num_sources, step=self.step, segments=moved)
