"""Global attention: a few global tokens (hubs) are connected to all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index

import numpy as np
import torch

from edgewise._utils.errors import ArgumentError, counted
from edgewise.graphs.graph import Graph, Intervals, Pattern, disjoint_union


@dataclass(frozen=True, repr=False)
class Hubs(Pattern):
    """Global attention: global tokens (hubs) attend to all nodes, and all nodes attend to them.

    With ``is_read=False``, only the hubs attend, to all nodes. With ``reads=False``, all nodes
    attend to the hubs only. Longformer has different projections for these two graphs. ``nodes``
    lists the hubs as positions among the sources; a negative position counts from the end.

    Example:
        >>> from edgewise import graphs
        >>> graphs.hubs([0]).bind(4).dense().long()
        tensor([[1, 1, 1, 1],
                [1, 0, 0, 0],
                [1, 0, 0, 0],
                [1, 0, 0, 0]])
    """

    nodes: Sequence[int]
    reads: bool = True
    is_read: bool = True

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "nodes", tuple(map(index, self.nodes)))
        except TypeError as error:
            is_list = isinstance(self.nodes, Iterable)
            remedy = "pass integers" if is_list else f"write hubs([{self.nodes}])"
            raise ArgumentError(
                "nodes",
                expected="a list of positions, such as [0]",
                got=repr(self.nodes),
                remedy=remedy,
            ) from error
        for name in ("reads", "is_read"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise ArgumentError(
                    name,
                    expected="True or False",
                    got=repr(value),
                    remedy="list all hubs in one list, the first argument",
                )
            object.__setattr__(self, name, bool(value))

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        ahead = self._sources_ahead(num_targets, num_sources)
        if any(not -num_sources <= node < num_sources for node in self.nodes):
            least = max(max(node + 1, -node) for node in self.nodes)
            self._refuse(f"at least {counted(least, 'source')}", num_targets, num_sources)
        hubs = sorted({node % num_sources for node in self.nodes})
        position = torch.arange(num_targets) + ahead
        is_hub = torch.isin(position, torch.tensor(hubs, dtype=torch.long))
        # Consecutive hubs form one interval of sources for every target. The hubs attend to all
        # sources.
        disjoint: list[Graph] = []
        for first, last in _runs(hubs):
            start = torch.full_like(position, first)
            stop = torch.full_like(position, last + 1 if self.is_read else first)
            if self.reads:
                # The hubs attend to all nodes in the first graph, and to none in the others.
                start[is_hub], stop[is_hub] = 0, 0 if disjoint else num_sources
            disjoint.append(Intervals(start, stop, num_sources))
        return disjoint_union(disjoint, num_targets, num_sources)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Group sorted distinct numbers into ranges ``(first, last)`` of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
