"""Bipartite subgraphs of consecutive targets or sources, which processes and rings compute."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from edgewise._utils.ragged import ranges, starts
from edgewise.graphs.graph import Edges, Graph, Intervals, Runs, disjoint_union, runs_of
from edgewise.graphs.run_lists import RunList, run_lengths


def slice_targets(graph: Graph, first: int, last: int) -> Graph:
    """Return the graph of the targets ``first`` to ``last - 1``; its edges keep their order."""
    if len(graph.parts) > 1:
        members = [slice_targets(member, first, last) for member in graph.parts]
        return disjoint_union(members, last - first, graph.num_sources)
    if isinstance(graph, Intervals):
        start, stop = graph.start[first:last], graph.stop[first:last]
        return Intervals(start, stop, graph.num_sources, step=graph.step)
    runs = runs_of(graph)
    if runs is not None:
        runs = runs.at((runs.row >= first) & (runs.row < last))
        return _graph(replace(runs, row=runs.row - first), last - first, graph.num_sources)
    source, target = graph.edge_index[:, edges_of_targets(graph, first, last)]
    return Edges(torch.stack([source, target - first]), last - first, graph.num_sources)


def edges_of_targets(graph: Graph, first: int, last: int) -> Tensor:
    """Return the indices of the edges of :func:`slice_targets`, in its order."""
    return ((graph.target >= first) & (graph.target < last)).nonzero()[:, 0]


def slice_sources(graph: Graph, first: int, last: int) -> Graph:
    """Return the graph of the sources ``first`` to ``last - 1``; its edges keep their order."""
    if len(graph.parts) > 1:
        members = [slice_sources(member, first, last) for member in graph.parts]
        return disjoint_union(members, graph.num_targets, last - first)
    runs = runs_of(graph)
    if runs is None:
        source, target = graph.edge_index[:, edges_of_sources(graph, first, last)]
        return Edges(torch.stack([source - first, target]), graph.num_targets, last - first)
    # The first element of a run that is not before ``first``.
    skipped = (first - runs.start).clamp_(min=0)
    start = runs.start + run_lengths(torch.zeros_like(skipped), skipped, runs.step) * runs.step
    inside = replace(runs, start=start - first, stop=runs.stop.clamp(max=last) - first)
    return _graph(inside.non_empty(), graph.num_targets, last - first, like=graph)


def edges_of_sources(graph: Graph, first: int, last: int) -> Tensor:
    """Return the indices of the edges of :func:`slice_sources`, in its order."""
    return ((graph.source >= first) & (graph.source < last)).nonzero()[:, 0]


@dataclass(frozen=True)
class SourceRanges:
    """Sorted disjoint ranges of sources, ``start[k]`` to ``stop[k] - 1``."""

    start: Tensor
    stop: Tensor

    @classmethod
    def of(cls, graph: Graph) -> SourceRanges:
        """Return the sources of a graph. A run with a step also covers the sources between."""
        starting, stopping = [], []
        for member in graph.parts:
            runs = runs_of(member)
            if runs is None:
                source = member.source.unique()
                runs = RunList(source, source, source + 1, 1)
            starting.append(runs.start)
            stopping.append(runs.start + (runs.lengths() - 1) * runs.step + 1)
        start, order = torch.cat(starting).sort()
        reached = torch.cat(stopping)[order].cummax(0).values
        # A range begins where all earlier ones have ended.
        begins = torch.ones_like(start, dtype=torch.bool)
        begins[1:] = start[1:] > reached[:-1]
        ends = torch.cat([begins[1:], begins.new_ones(min(len(begins), 1))])
        return cls(start[begins], reached[ends])

    def sources(self) -> Tensor:
        """Return all sources, sorted."""
        return ranges(self.start, self.stop - self.start)

    def positions(self, source: Tensor) -> Tensor:
        """Return the positions of some of the sources among all of them."""
        index = torch.searchsorted(self.start, source, right=True) - 1
        return (starts(self.stop - self.start) - self.start)[index] + source

    def renumber(self, graph: Graph) -> Graph:
        """Return a graph with only these sources, numbered by position; edges keep their order."""
        count = int((self.stop - self.start).sum())
        if len(graph.parts) > 1:
            members = [self.renumber(member) for member in graph.parts]
            return disjoint_union(members, graph.num_targets, count)
        runs = runs_of(graph)
        if runs is None:
            pairs = torch.stack([self.positions(graph.source), graph.target])
            return Edges(pairs, graph.num_targets, count)
        start = self.positions(runs.start)
        runs = replace(runs, start=start, stop=start + runs.stop - runs.start)
        return _graph(runs, graph.num_targets, count, like=graph)


def _graph(runs: RunList, num_targets: int, num_sources: int, like: Graph | None = None) -> Graph:
    """Return the graph of runs sorted by target: Intervals if ``like`` is, otherwise Runs."""
    if not isinstance(like, Intervals):
        row, start, stop = runs.row, runs.start, runs.stop
        return Runs(row, start, stop, num_targets, num_sources, step=runs.step)
    bounds = runs.row.new_zeros(2, num_targets)
    bounds[:, runs.row] = torch.stack([runs.start, runs.stop])
    return Intervals(bounds[0], bounds[1], num_sources, step=runs.step)
