"""Ring attention with the same work for all processes on a causal graph (Brandon et al., 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.distributed.partitions import Partition, Selected
from edgewise.distributed.ring import RingPartition
from edgewise.graphs import Graph, Intervals


class ZigzagPartition(RingPartition):
    """Ring of P processes, of which process r has the slices r and 2P - 1 - r of 2P slices.

    On a causal graph, later nodes have more edges: with one early and one late slice, each process
    has the same number of edges.
    """

    def __init__(
        self,
        graph: Graph,
        target_sizes: Sequence[int],
        source_sizes: Sequence[int],
        group: dist.ProcessGroup,
    ) -> None:
        Partition.__init__(self, target_sizes, source_sizes, group)
        count, slices = sum(source_sizes), 2 * self.world_size
        equal = {*target_sizes, *source_sizes} == {count // self.world_size}
        if not equal or count % slices or not isinstance(graph, Intervals) or graph.step != 1:
            raise ArgumentError(
                "graph",
                expected=f"causal(), a window or complete(), on a multiple of {slices} nodes, of "
                "which each process has as many",
                got=f"{graph!r}, and {list(target_sizes)} targets and {list(source_sizes)} sources "
                "of the processes",
                remedy='use by="ring" or by="halo", or pad the sequence',
            )
        size = count // slices
        self._firsts = [(r * size, (slices - 1 - r) * size) for r in range(self.world_size)]
        self._size = size
        positions = self.positions.to(graph.device)
        start, stop = graph.start[positions], graph.stop[positions]
        self._all_edges = graph.num_edges
        self._edge_ids = lambda: torch.isin(graph.target, positions).nonzero()[:, 0]
        self.graph = Intervals(start, stop, count)
        self._graphs = [
            Intervals(self._before(start, owner), self._before(stop, owner), 2 * size)
            for owner in range(self.world_size)
        ]
        self._gather_work(self._graphs)

    @property
    def positions(self) -> Tensor:
        """Indices of the nodes of this process in the graph, sorted, ``[N / P]``."""
        return self._positions_of(self.rank)

    @property
    def _target_index(self) -> Tensor:
        return self.positions

    def _positions_of(self, owner: int) -> Tensor:
        return torch.cat([torch.arange(x, x + self._size) for x in self._firsts[owner]])

    def _before(self, position: Tensor, owner: int) -> Tensor:
        """Return how many nodes of a process come before each position."""
        counts = [(position - first).clamp(0, self._size) for first in self._firsts[owner]]
        return counts[0] + counts[1]

    def _block_options(self, options: dict[str, Any], owner: int, graph: Graph) -> dict[str, Any]:
        positions = self._positions_of(owner)

        def edge_ids() -> Tensor:
            source = self.graph.source
            return torch.isin(source, positions.to(source.device)).nonzero()[:, 0]

        edges = Selected(self.graph.num_edges, edge_ids, slice(None), positions)
        return edges.options(options, graph)
