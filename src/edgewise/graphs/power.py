"""Powers of graphs: an edge from j to i if 1 to k edges lead from j to i."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise._utils.arguments import check_range
from edgewise._utils.dispatch_modes import disable_modes
from edgewise._utils.ragged import runs_and_positions, starts
from edgewise.graphs.edges import edges_of_keys
from edgewise.graphs.graph import OPERATIONS, Graph, Pattern


@dataclass(frozen=True, repr=False)
class Power(Pattern):
    """Pattern with an edge from j to i if 1 to ``k`` edges of ``pattern`` lead from j to i.

    These j are the receptive field of i after k layers. Walks may return to their start, so the
    power of an undirected graph has self-loops for k ≥ 2; ``without_self_loops()`` removes them.
    """

    pattern: Pattern
    k: int

    def __post_init__(self) -> None:
        check_range(
            "k",
            self.k,
            "choose for example 2; for self-loops only, use graphs.window(0)",
            least=1,
            integer=True,
        )

    @staticmethod
    def of(pattern: Pattern, k: int) -> Pattern:
        """Return the power as a pattern, or as a graph if ``pattern`` is a graph."""
        power = Power(pattern, k)
        if isinstance(pattern, Graph):
            with disable_modes():
                return power._build(pattern.num_targets, pattern.num_sources)
        return power

    def __repr__(self) -> str:
        return f"({self.pattern!r}).power({self.k})"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        if num_targets != num_sources:
            self._refuse("as many targets as sources", num_targets, num_sources)
        graph = self.pattern.bind(num_targets)
        n = max(num_targets, 1)
        target, source = graph.target, graph.source
        order = target.argsort(stable=True)
        read, degree = source[order], graph.in_degree()
        first = starts(degree)
        reach = frontier = torch.unique(target * n + source)
        for _ in range(self.k - 1):
            # Extend each walk, from m to target i, by all sources of m.
            reader, middle = torch.div(frontier, n, rounding_mode="floor"), frontier % n
            walk, nth = runs_and_positions(degree[middle])
            end = read[first[middle][walk] + nth]
            reached = torch.unique(reader[walk] * n + end)
            # Only new pairs are extended: a walk from an old pair was extended before.
            frontier = reached[~torch.isin(reached, reach)]
            if not len(frontier):
                break
            reach = torch.cat([reach, frontier]).sort().values
        return edges_of_keys(reach, graph)


OPERATIONS.update(power=Power.of)
