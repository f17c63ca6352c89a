"""Runs, which are intervals of the sources of a target, and set operations on lists of runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise._utils.ragged import runs_and_positions

MOST_STEPS = 16
"""Maximum common step of two graphs with different steps; beyond it, their edges are listed."""


@dataclass(frozen=True)
class RunList:
    """Non-empty runs: target ``row[r]`` attends to ``range(start[r], stop[r], step)``."""

    row: Tensor
    start: Tensor
    stop: Tensor
    step: int

    def lengths(self) -> Tensor:
        """Return the number of sources in each run."""
        return run_lengths(self.start, self.stop, self.step)

    def at(self, index: Tensor) -> RunList:
        """Return the runs selected by ``index``, integer indices or a boolean mask of the runs."""
        return RunList(self.row[index], self.start[index], self.stop[index], self.step)

    def non_empty(self) -> RunList:
        return self.at(self.start < self.stop)


def run_lengths(start: Tensor, stop: Tensor, step: int) -> Tensor:
    """Return the number of elements of each ``range(start[r], stop[r], step)``."""
    return torch.div(stop - start + step - 1, step, rounding_mode="floor")


def run_key(row: Tensor, source: Tensor, step: int, width: int) -> Tensor:
    """Return distinct integers for pairs of row and source, consecutive along a run."""
    # There are ``width`` integers for each row and each remainder of the source modulo ``step``.
    return (row * step + source % step) * width + torch.div(source, step, rounding_mode="floor")


def runs_of_keys(keys: Tensor, num_sources: int) -> RunList:
    """Group edges, sorted distinct integers ``row * num_sources + source``, into runs of step 1."""
    row = torch.div(keys, max(num_sources, 1), rounding_mode="floor")
    begins = torch.ones_like(keys, dtype=torch.bool)
    begins[1:] = (keys[1:] != keys[:-1] + 1) | (row[1:] != row[:-1])
    first = begins.nonzero()[:, 0]
    last = torch.cat([first[1:], first.new_tensor([keys.numel()])[: first.numel()]]) - 1
    start = keys[first] - row[first] * num_sources
    return RunList(row[first], start, start + (last - first) + 1, 1)


def common_runs(a: RunList, b: RunList, num_sources: int) -> RunList | None:
    """Return the edges of both lists, or None if their steps cannot be combined."""
    return _clip(b, a, num_sources) if a.step == 1 else _clip(a, b, num_sources)


def remaining_runs(a: RunList, b: RunList, num_sources: int) -> RunList | None:
    """Return the edges of ``a`` that are not in ``b``, or None if the steps cannot be combined."""
    return _clip(a, b, num_sources, invert=True)


def _clip(a: RunList, b: RunList, num_sources: int, *, invert: bool = False) -> RunList | None:
    """Return the edges of ``a`` that are in ``b``; with ``invert``, those that are not in ``b``."""
    step = math.lcm(a.step, b.step) if b.step > 1 else 1
    if step > MOST_STEPS and a.step != b.step:
        return None
    # If b has a step, split both into one row per remainder of the source modulo the step. Each
    # row then holds consecutive numbers.
    width = num_sources + 1
    a, b = _split_by_remainder(a, step), _split_by_remainder(b, step)
    begin, end = (b.row * width + b.start), (b.row * width + b.stop)
    order = begin.argsort()
    begin, end = begin[order], end[order]
    # The difference is the intersection with the gaps between the runs of b.
    if invert:
        zero, far = begin.new_zeros(1), begin.new_full((1,), torch.iinfo(torch.long).max)
        begin, end = torch.cat([zero, end]), torch.cat([begin, far])
    return _join_remainders(_intersect(a, begin, end, width), step)


def _intersect(a: RunList, begin: Tensor, end: Tensor, width: int) -> RunList:
    """Return the intersection with sorted disjoint intervals of ``row * width + source``."""
    offset = a.row * width
    first = torch.searchsorted(end, offset + a.start, right=True)
    last = torch.searchsorted(begin, offset + a.stop)
    run, rank = runs_and_positions((last - first).clamp_(min=0))
    interval, run_offset = first[run] + rank, offset[run]
    skipped = (begin[interval] - run_offset - a.start[run]).clamp_(min=0)
    start = a.start[run] + run_lengths(torch.zeros_like(skipped), skipped, a.step) * a.step
    stop = torch.minimum(a.stop[run], end[interval] - run_offset)
    return RunList(a.row[run], start, stop, a.step).non_empty()


def _split_by_remainder(a: RunList, step: int) -> RunList:
    """Split runs so that source s becomes ``s // step`` in row ``row * step + s % step``."""
    if step == 1:
        return a
    count = step // a.step
    shift = a.step * torch.arange(count, device=a.row.device)
    start = (a.start[:, None] + shift).flatten()
    row, stop = a.row.repeat_interleave(count), a.stop.repeat_interleave(count)
    a = RunList(row, start, stop, step).non_empty()
    begin = torch.div(a.start, step, rounding_mode="floor")
    return RunList(a.row * step + a.start % step, begin, begin + a.lengths(), 1)


def _join_remainders(a: RunList, step: int) -> RunList:
    """Undo :func:`_split_by_remainder`."""
    if step == 1:
        return a
    row = torch.div(a.row, step, rounding_mode="floor")
    start = a.start * step + a.row % step
    return RunList(row, start, start + (a.stop - a.start - 1) * step + 1, step)
