"""Graphs in which every target attends to one interval of source positions."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise._utils.dispatch_modes import detach_from_inference
from edgewise._utils.ragged import runs_and_positions
from edgewise.graphs.graph import Graph


class Intervals(Graph):
    """Graph in which target i attends to sources ``range(start[i], stop[i], step)``.

    Full, causal, sliding-window, dilated and block attention have this form, and so have packed
    batches of these and pooling. With n targets, the graph needs O(n) memory for any number of
    edges, and the engines have fast kernels for it. Edges are sorted by target, then by source.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> start, stop = torch.tensor([0, 0, 1]), torch.tensor([1, 2, 3])
        >>> graphs.Intervals(start, stop, num_sources=3).dense().long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]])
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
        super().__init__(start.shape[0], num_sources, start.device)
        # Copy start and stop, so that later in-place changes of the arguments have no effect.
        self.start, self.stop = (
            detach_from_inference(start.clone()),
            detach_from_inference(torch.maximum(start, stop)),
        )
        self.step = step
        self.segments = segments

    def in_degree(self) -> Tensor:
        lengths = self.stop - self.start
        if self.step > 1:
            lengths = torch.div(lengths + self.step - 1, self.step, rounding_mode="floor")
        return detach_from_inference(lengths)

    @property
    def num_edges(self) -> int:
        return self.derived(_count_edges)

    @property
    def edge_index(self) -> Tensor:
        return self.derived(_list_edges)

    @property
    def is_complete(self) -> bool:
        """True if every target attends to every source."""
        return self.num_edges == self.num_targets * self.num_sources

    @property
    def is_causal(self) -> bool:
        """True if there are as many targets as sources and target i attends to sources 0 to i."""
        return self.derived(_is_causal)

    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        start = self.start[target]
        inside = (source >= start) & (source < self.stop[target])
        return inside if self.step == 1 else inside & ((source - start) % self.step == 0)

    def _moved(self, device: torch.device) -> Graph:
        segments = self.segments
        moved = (segments[0].to(device), segments[1].to(device)) if segments else None
        start, stop = self.start.to(device), self.stop.to(device)
        return Intervals(start, stop, self.num_sources, step=self.step, segments=moved)


def _count_edges(graph: Graph) -> int:
    return int(graph.in_degree().sum())


def _list_edges(graph: Graph) -> Tensor:
    assert isinstance(graph, Intervals)
    target, rank = runs_and_positions(graph.in_degree(), graph.num_edges)
    return torch.stack([graph.start[target] + graph.step * rank, target])


def _is_causal(graph: Graph) -> bool:
    assert isinstance(graph, Intervals)
    if graph.num_targets != graph.num_sources or graph.step != 1:
        return False
    node = torch.arange(graph.num_targets, device=graph.device)
    return bool((graph.start == 0).all()) and bool((graph.stop == node + 1).all())
