"""Set operations on patterns: ``a | b``, ``a & b``, ``a - b`` and the transpose.

``|``, ``&`` and ``-`` return a graph without duplicate edges. A union keeps its operands as
separate graphs without common edges, so that each can run on the engine that is fastest for it. The
attention outputs are then merged without approximation (see ``engines/merge.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from edgewise._utils.dispatch_modes import disable_modes
from edgewise.graphs.convert import check_graph, common_device
from edgewise.graphs.edges import Edges, edges_of_keys
from edgewise.graphs.graph import OPERATIONS, Graph, Pattern
from edgewise.graphs.intervals import Intervals
from edgewise.graphs.runs import Runs, overlap, remainder


@dataclass(frozen=True, repr=False)
class Composition(Pattern):
    """Base class of the set operations on two patterns; ``sign`` is the operator, such as "|"."""

    left: Pattern
    right: Pattern
    sign: ClassVar[str]

    @classmethod
    def of(cls, left: Pattern, right: Pattern) -> Pattern:
        """Return the result of the operation: a graph if an operand is a graph, else a pattern."""
        whole = cls(left, check_graph(right))
        for side in (left, right):
            if isinstance(side, Graph):
                with disable_modes():
                    return whole._build(side.num_targets, side.num_sources)
        return whole

    def __repr__(self) -> str:
        return f"({self.left!r} {self.sign} {self.right!r})"

    def _operands(self, num_targets: int, num_sources: int) -> tuple[Graph, Graph]:
        """Return both operands as graphs on one device.

        If one operand is a pattern and the other a graph, the device is that of the graph.

        Raises:
            ArgumentError: the operands are graphs on different devices.
        """
        left = self.left.bind(num_targets, num_sources)
        right = self.right.bind(num_targets, num_sources)
        if left.device == right.device:
            return left, right
        given = [side for side in (self.left, self.right) if isinstance(side, Graph)]
        device = common_device(given or (left, right))
        return left.to(device), right.to(device)


class Union(Composition):
    """Union ``a | b``: edges of at least one of the two patterns."""

    sign = "|"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        left, right = self._operands(num_targets, num_sources)
        # Each graph loses the edges that an earlier one contains. Graphs of intervals with step 1
        # come first, because removing edges would split their intervals.
        parts: list[Graph] = []
        for part in sorted([*left.parts, *right.parts], key=_raggedness):
            parts.append(_difference(_as_set(part), parts))
        return disjoint_union(parts, num_targets, num_sources)


class Intersection(Composition):
    """Intersection ``a & b``: edges of both patterns."""

    sign = "&"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        left, right = self._operands(num_targets, num_sources)
        parts = [_common(a, b) for a in left.parts for b in right.parts]
        return disjoint_union(parts, num_targets, num_sources)


class Difference(Composition):
    """Difference ``a - b``: edges of the first pattern that are not edges of the second."""

    sign = "-"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        left, right = self._operands(num_targets, num_sources)
        parts = [_difference(_as_set(part), [right]) for part in left.parts]
        return disjoint_union(parts, num_targets, num_sources)


@dataclass(frozen=True, repr=False)
class Transpose(Pattern):
    """Transpose: every edge reversed."""

    pattern: Pattern

    def __repr__(self) -> str:
        return f"({self.pattern!r}).transpose()"

    def transpose(self) -> Pattern:
        return self.pattern

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        return self.pattern.bind(num_sources, num_targets).transpose()


class DisjointUnion(Graph):
    """Union of graphs without common edges; ``edge_index`` concatenates their edge lists."""

    def __init__(self, parts: Sequence[Graph], num_targets: int, num_sources: int) -> None:
        super().__init__(num_targets, num_sources, parts[0].device)
        self._parts = tuple(parts)
        self.segments = common_segments(parts)

    @property
    def parts(self) -> tuple[Graph, ...]:
        return self._parts

    @property
    def edge_index(self) -> Tensor:
        return self.derived(_join_edges)

    @property
    def num_edges(self) -> int:
        return sum(part.num_edges for part in self._parts)

    def in_degree(self) -> Tensor:
        return self.cached("in_degree", self._degrees)

    def _degrees(self) -> Tensor:
        return torch.stack([part.in_degree() for part in self._parts]).sum(0)

    @property
    def has_duplicates(self) -> bool:
        return any(part.has_duplicates for part in self._parts)

    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        found = self._parts[0].contains(source, target)
        for part in self._parts[1:]:
            found = found | part.contains(source, target)
        return found

    def _moved(self, device: torch.device) -> Graph:
        parts = [part.to(device) for part in self._parts]
        return DisjointUnion(parts, self.num_targets, self.num_sources)


def _join_edges(graph: Graph) -> Tensor:
    return torch.cat([part.edge_index for part in graph.parts], dim=1)


def disjoint_union(parts: Sequence[Graph], num_targets: int, num_sources: int) -> Graph:
    """Return the union of graphs that have no edges in common.

    Graphs without edges are omitted. All graphs that are stored as edge lists become one edge list.

    Args:
        parts: graphs on the same nodes.
        num_targets: number of targets of each of these graphs.
        num_sources: number of sources of each of these graphs.
    """
    kept = [part for part in parts if part.num_edges and not isinstance(part, Edges)]
    listed = [part for part in parts if part.num_edges and isinstance(part, Edges)]
    if len(listed) > 1:
        joined = torch.cat([part.edge_index for part in listed], dim=1)
        listed = [Edges(joined, num_targets, num_sources, common_segments(listed))]
    kept.extend(listed)
    if len(kept) == 1:
        return kept[0]
    if kept:
        return DisjointUnion(kept, num_targets, num_sources)
    nothing = torch.empty(2, 0, dtype=torch.long, device=common_device(parts))
    return Edges(nothing, num_targets, num_sources)


def common_segments(graphs: Sequence[Graph]) -> tuple[Tensor, Tensor] | None:
    """Return the sizes of the batch, ``segments``, if they are equal in all graphs, else None."""
    first = graphs[0].segments
    same = first is not None and all(
        graph.segments is not None and all(map(torch.equal, graph.segments, first))
        for graph in graphs[1:]
    )
    return first if same else None


def _as_set(graph: Graph) -> Graph:
    return graph.unique() if isinstance(graph, Edges) and graph.has_duplicates else graph


def _chosen(graph: Graph, keep: Tensor, segments: tuple[Tensor, Tensor] | None) -> Graph:
    chosen = graph.edge_index[:, keep]
    return Edges(chosen, graph.num_targets, graph.num_sources, segments)


def _raggedness(graph: Graph) -> int:
    """Return the step of a graph of intervals, or a large number for other graphs (a sort key)."""
    return graph.step if isinstance(graph, Intervals | Runs) else torch.iinfo(torch.int).max


def _common(left: Graph, right: Graph) -> Graph:
    runs = overlap(left, right)
    if runs is not None:
        return runs
    few, many = sorted((left, right), key=lambda g: g.num_edges)
    few = _as_set(few)
    return _chosen(few, many.contains(few.source, few.target), few.segments or many.segments)


def _difference(graph: Graph, others: Sequence[Graph]) -> Graph:
    """Return ``graph`` without the edges of ``others``, as a graph of intervals if possible."""
    rest = []
    for other in [part for whole in others for part in whole.parts]:
        runs = remainder(graph, other)
        if runs is None:
            rest.append(other)
        elif runs.num_edges < graph.num_edges:
            graph = runs
    return _listed_difference(graph, rest) if rest else graph


def _listed_difference(graph: Graph, others: Sequence[Graph]) -> Graph:
    """Return ``graph`` without the edges of ``others``, as an edge list if any are removed."""
    shared = torch.zeros(graph.num_edges, dtype=torch.bool, device=graph.device)
    for other in others:
        shared |= other.contains(graph.source, graph.target)
    if not shared.any():
        return graph
    if isinstance(graph, Edges):
        return _chosen(graph, ~shared, graph.segments)
    keys = graph.target * graph.num_sources + graph.source
    return edges_of_keys(keys[~shared].sort().values, graph)


OPERATIONS.update(
    union=Union.of, intersection=Intersection.of, difference=Difference.of, transpose=Transpose
)
