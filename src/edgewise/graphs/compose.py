"""Set algebra of patterns: ``a | b``, ``a & b``, ``a - b`` and the transpose.

Compositions are sets: each edge is there once. A union keeps its operands apart as *disjoint
parts*, so that each may run on its best engine and be merged exactly (see ``engines/merge.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from edgewise.dispatch_modes import disable_modes
from edgewise.graphs.convert import check_graph, common_device
from edgewise.graphs.edges import Edges, edges_of_keys
from edgewise.graphs.graph import OPERATIONS, Graph, Pattern
from edgewise.graphs.intervals import Intervals
from edgewise.graphs.runs import Runs, overlap, remainder


@dataclass(frozen=True, repr=False)
class Composition(Pattern):
    """Two patterns joined by an operation of sets."""

    left: Pattern
    right: Pattern
    sign: ClassVar[str]

    @classmethod
    def of(cls, left: Pattern, right: Pattern) -> Pattern:
        """The composition; where one operand is a graph its sizes bind the other at once."""
        whole = cls(left, check_graph(right))
        for side in (left, right):
            if isinstance(side, Graph):
                with disable_modes():
                    return whole._build(side.num_targets, side.num_sources)
        return whole

    def __repr__(self) -> str:
        return f"({self.left!r} {self.sign} {self.right!r})"

    def _operands(self, num_targets: int, num_sources: int) -> tuple[Graph, Graph]:
        """Both bound, a pattern where the other operand is.

        Raises:
            ArgumentError: two graphs on different devices.

        """
        left = self.left.bind(num_targets, num_sources)
        right = self.right.bind(num_targets, num_sources)
        if left.device == right.device:
            return left, right
        given = [side for side in (self.left, self.right) if isinstance(side, Graph)]
        device = common_device(given or (left, right))
        return left.to(device), right.to(device)


class Union(Composition):
    """The union ``a | b``: the edges of either."""

    sign = "|"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        left, right = self._operands(num_targets, num_sources)
        # Plain runs come first and stay whole; what others share with them goes from the others.
        parts: list[Graph] = []
        for part in sorted([*left.parts, *right.parts], key=_raggedness):
            parts.append(_difference(_as_set(part), parts))
        return disjoint_union(parts, num_targets, num_sources)


class Intersection(Composition):
    """The intersection ``a & b``: the edges of both."""

    sign = "&"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        left, right = self._operands(num_targets, num_sources)
        parts = [_common(a, b) for a in left.parts for b in right.parts]
        return disjoint_union(parts, num_targets, num_sources)


class Difference(Composition):
    """The difference ``a - b``: the edges of the first that are not in the second."""

    sign = "-"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        left, right = self._operands(num_targets, num_sources)
        parts = [_difference(_as_set(part), [right]) for part in left.parts]
        return disjoint_union(parts, num_targets, num_sources)


@dataclass(frozen=True, repr=False)
class Transpose(Pattern):
    """The transpose: every edge the other way round."""

    pattern: Pattern

    def __repr__(self) -> str:
        return f"({self.pattern!r}).transpose()"

    def transpose(self) -> Pattern:
        return self.pattern

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        return self.pattern.bind(num_sources, num_targets).transpose()


class DisjointUnion(Graph):
    """Graphs that share no edge; the edges of the parts follow one another."""

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
    """Graphs known to share no edge as one, with no empty parts and one explicit part at most."""
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
    """The segments that all of these graphs have, if they have the same."""
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
    return graph.step if isinstance(graph, Intervals | Runs) else torch.iinfo(torch.int).max


def _common(left: Graph, right: Graph) -> Graph:
    runs = overlap(left, right)
    if runs is not None:
        return runs
    few, many = sorted((left, right), key=lambda g: g.num_edges)
    few = _as_set(few)
    return _chosen(few, many.contains(few.source, few.target), few.segments or many.segments)


def _difference(graph: Graph, others: Sequence[Graph]) -> Graph:
    """``graph`` without what it shares with the others: run by run, or else its edges, listed."""
    rest = []
    for other in [part for whole in others for part in whole.parts]:
        runs = remainder(graph, other)
        if runs is None:
            rest.append(other)
        elif runs.num_edges < graph.num_edges:
            graph = runs
    return _listed_difference(graph, rest) if rest else graph


def _listed_difference(graph: Graph, others: Sequence[Graph]) -> Graph:
    """``graph`` itself where it shares nothing with the others, else its other edges, listed."""
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
