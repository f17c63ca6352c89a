"""Graphs in which every target attends to several intervals, and set operations on such graphs.

A *run* is one such interval of sources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise._utils.dispatch_modes import detach_from_inference
from edgewise._utils.ragged import runs_and_positions
from edgewise.graphs.graph import Graph
from edgewise.graphs.intervals import Intervals

MOST_STEPS = 16
"""Maximum common step of two graphs with different steps; beyond it, their edges are listed."""


class Runs(Graph):
    """Graph given by R intervals ("runs") of sources, with any number of intervals per target.

    For each r below R, target ``row[r]`` attends to ``range(start[r], stop[r], step)``. The
    intervals of a target are disjoint, such as the random blocks of BigBird. Memory is O(R) for
    any number of edges. Runs and edges are sorted by target, then by source.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> row, start, stop = torch.tensor([[0, 0, 1], [0, 2, 1], [1, 4, 3]])
        >>> graphs.Runs(row, start, stop, 2, 4).dense().long()
        tensor([[1, 0, 1, 1],
                [0, 1, 1, 0]])
    """

    def __init__(
        self,
        row: Tensor,
        start: Tensor,
        stop: Tensor,
        num_targets: int,
        num_sources: int,
        *,
        step: int = 1,
        segments: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__(num_targets, num_sources, start.device)
        self.row, self.start, self.stop = (
            detach_from_inference(row),
            detach_from_inference(start),
            detach_from_inference(stop),
        )
        self.step = step
        self.segments = segments

    def in_degree(self) -> Tensor:
        return self.cached("in_degree", self._degrees)

    def _degrees(self) -> Tensor:
        lengths = _lengths(self.start, self.stop, self.step)
        return lengths.new_zeros(self.num_targets).index_add_(0, self.row, lengths)

    @property
    def num_edges(self) -> int:
        return self.derived(_count_edges)

    @property
    def edge_index(self) -> Tensor:
        return self.derived(_list_edges)

    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        begin, end, width = self.derived(_line)
        wanted = _place(target, source, self.step, width)
        if not begin.numel():
            return torch.zeros_like(wanted, dtype=torch.bool)
        index = torch.searchsorted(begin, wanted, right=True) - 1
        found: Tensor = (index >= 0) & (wanted < end[index.clamp_(min=0)])
        return found

    def _moved(self, device: torch.device) -> Graph:
        segments = self.segments
        moved = (segments[0].to(device), segments[1].to(device)) if segments else None
        ends = self.start.to(device), self.stop.to(device)
        sizes = self.num_targets, self.num_sources
        return Runs(self.row.to(device), *ends, *sizes, step=self.step, segments=moved)


def _count_edges(graph: Graph) -> int:
    return int(graph.in_degree().sum())


def _list_edges(graph: Graph) -> Tensor:
    assert isinstance(graph, Runs)
    lengths = _lengths(graph.start, graph.stop, graph.step)
    run, rank = runs_and_positions(lengths, graph.num_edges)
    return torch.stack([graph.start[run] + graph.step * rank, graph.row[run]])


def _lengths(start: Tensor, stop: Tensor, step: int) -> Tensor:
    return torch.div(stop - start + step - 1, step, rounding_mode="floor")


@dataclass(frozen=True)
class Lists:
    """Non-empty runs: target ``row[r]`` attends to ``range(start[r], stop[r], step)``."""

    row: Tensor
    start: Tensor
    stop: Tensor
    step: int

    def lengths(self) -> Tensor:
        """Return the number of sources in each run."""
        return _lengths(self.start, self.stop, self.step)

    def at(self, index: Tensor) -> Lists:
        """Return the runs selected by ``index``, integer indices or a boolean mask of the runs."""
        return Lists(self.row[index], self.start[index], self.stop[index], self.step)


def lists_of(graph: Graph) -> Lists | None:
    """Return the runs of an Intervals or Runs graph, or None for other graphs."""
    if isinstance(graph, Runs):
        return Lists(graph.row, graph.start, graph.stop, graph.step)
    if isinstance(graph, Intervals):
        row = torch.arange(graph.num_targets, device=graph.device)
        return _filled(Lists(row, graph.start, graph.stop, graph.step))
    return None


def graph_of(lists: Lists, like: Graph, segments: tuple[Tensor, Tensor] | None) -> Graph:
    """Return the graph of disjoint runs (intervals of sources).

    Args:
        lists: the runs.
        like: graph with the same numbers of nodes.
        segments: sizes of the graphs of a batch, as in :class:`Graph`, or None.
    """
    order = (lists.row * (like.num_sources + 1) + lists.start).argsort()
    lists = lists.at(order)
    targets, sources = like.num_targets, like.num_sources
    if bool((lists.row[1:] == lists.row[:-1]).any()):
        ends = lists.row, lists.start, lists.stop
        return Runs(*ends, targets, sources, step=lists.step, segments=segments)
    start = lists.row.new_zeros(targets).index_copy_(0, lists.row, lists.start)
    stop = lists.row.new_zeros(targets).index_copy_(0, lists.row, lists.stop)
    return Intervals(start, stop, sources, step=lists.step, segments=segments)


def runs_of_keys(keys: Tensor, width: int) -> Lists:
    """Group edges into runs, intervals of consecutive sources with the same target.

    Args:
        keys: sorted distinct integers ``row * width + source``, where row is the target.
        width: number of sources.
    """
    row = torch.div(keys, max(width, 1), rounding_mode="floor")
    begins = torch.ones_like(keys, dtype=torch.bool)
    begins[1:] = (keys[1:] != keys[:-1] + 1) | (row[1:] != row[:-1])
    first = begins.nonzero()[:, 0]
    last = torch.cat([first[1:], first.new_tensor([keys.numel()])[: first.numel()]]) - 1
    start = keys[first] - row[first] * width
    return Lists(row[first], start, start + (last - first) + 1, 1)


def overlap(left: Graph, right: Graph) -> Graph | None:
    """Return the edges in both graphs, or None if these cannot be stored as runs (intervals)."""
    a, b = lists_of(left), lists_of(right)
    if a is None or b is None:
        return None
    segments = left.segments or right.segments
    if a.step == 1:
        a, b = b, a
    return _clipped(a, b, left, segments, others=False)


def remainder(graph: Graph, other: Graph) -> Graph | None:
    """Return ``graph`` without the edges of ``other``, or None if the rest is not made of runs."""
    a, b = lists_of(graph), lists_of(other)
    if a is None or b is None:
        return None
    return _clipped(a, b, graph, graph.segments, others=True)


def _clipped(
    a: Lists, b: Lists, like: Graph, segments: tuple[Tensor, Tensor] | None, *, others: bool
) -> Graph | None:
    """Return the graph of the edges of ``a`` that are also in ``b``.

    Args:
        a: runs of the first graph.
        b: runs of the second graph.
        like: graph with the same numbers of nodes.
        segments: sizes of the graphs of a batch, as in :class:`Graph`, or None.
        others: if True, return the edges of ``a`` that are not in ``b``.

    Returns:
        The graph, or None if the steps of ``a`` and ``b`` cannot be combined.
    """
    step = math.lcm(a.step, b.step) if b.step > 1 else 1
    if step > MOST_STEPS and a.step != b.step:
        return None
    # If b has a step, split both into one row per remainder of the source modulo the step. Each
    # row then holds consecutive numbers.
    width = like.num_sources + 1
    a, b = _apart(a, step), _apart(b, step)
    begin, end = (b.row * width + b.start), (b.row * width + b.stop)
    order = begin.argsort()
    begin, end = begin[order], end[order]
    # The difference is the intersection with the gaps between the runs of b.
    if others:
        zero, far = begin.new_zeros(1), begin.new_full((1,), torch.iinfo(torch.long).max)
        begin, end = torch.cat([zero, end]), torch.cat([begin, far])
    return graph_of(_together(_within(a, begin, end, width), step), like, segments)


def _within(a: Lists, begin: Tensor, end: Tensor, width: int) -> Lists:
    """Return the intersection of the runs ``a`` with sorted disjoint intervals.

    Args:
        a: runs, ``range(start, stop, step)`` of the sources of a row.
        begin: first position of each interval; ``row * width + source`` is the position of a
            source in a row.
        end: position after the last position of each interval.
        width: positions per row, above the largest source.
    """
    ahead = a.row * width
    first = torch.searchsorted(end, ahead + a.start, right=True)
    last = torch.searchsorted(begin, ahead + a.stop)
    run, rank = runs_and_positions((last - first).clamp_(min=0))
    stretch, run_ahead = first[run] + rank, ahead[run]
    late = (begin[stretch] - run_ahead - a.start[run]).clamp_(min=0)
    start = a.start[run] + _lengths(torch.zeros_like(late), late, a.step) * a.step
    stop = torch.minimum(a.stop[run], end[stretch] - run_ahead)
    return _filled(Lists(a.row[run], start, stop, a.step))


def _apart(a: Lists, step: int) -> Lists:
    """Split each run into one run of step 1 for each remainder of the sources modulo ``step``.

    A source with remainder r is numbered ``source // step`` in row ``row * step + r``.

    Args:
        a: runs, whose own step divides ``step``.
        step: common step of the runs to combine.
    """
    if step == 1:
        return a
    finer = step // a.step
    shift = a.step * torch.arange(finer, device=a.row.device)
    start = (a.start[:, None] + shift).flatten()
    a = Lists(a.row.repeat_interleave(finer), start, a.stop.repeat_interleave(finer), step)
    a = _filled(a)
    begin = torch.div(a.start, step, rounding_mode="floor")
    length = _lengths(a.start, a.stop, step)
    return Lists(a.row * step + a.start % step, begin, begin + length, 1)


def _together(a: Lists, step: int) -> Lists:
    """Undo :func:`_apart`: return runs in the original numbering, with step ``step``."""
    if step == 1:
        return a
    row = torch.div(a.row, step, rounding_mode="floor")
    start = a.start * step + a.row % step
    return Lists(row, start, start + (a.stop - a.start - 1) * step + 1, step)


def _filled(a: Lists) -> Lists:
    return a.at(a.start < a.stop)


def _line(graph: Graph) -> tuple[Tensor, Tensor, int]:
    """Return the begin and end of each run as integers of :func:`_place`, sorted by begin.

    The third result is the argument ``width`` of :func:`_place`.
    """
    assert isinstance(graph, Runs)
    step, width = graph.step, graph.num_sources // graph.step + 2
    begin = _place(graph.row, graph.start, step, width)
    begin, order = begin.sort()
    return begin, begin + _lengths(graph.start, graph.stop, step)[order], width


def _place(row: Tensor, source: Tensor, step: int, width: int) -> Tensor:
    """Return distinct integers for pairs of row and source, consecutive along a run.

    Args:
        row: row indices.
        source: source indices, of the same shape.
        step: step of the runs; the integers of a source and of ``source + step`` differ by 1.
        width: integers reserved for each row and remainder modulo ``step``.
    """
    return (row * step + source % step) * width + torch.div(source, step, rounding_mode="floor")
