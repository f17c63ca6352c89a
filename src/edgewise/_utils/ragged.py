"""Ragged arrays: segments of different lengths concatenated on one axis.

Packed batches and sorted edges are ragged. For lengths ``[2, 0, 3]``, the five elements belong to
the segments ``[0, 0, 2, 2, 2]``, at the positions ``[0, 1, 0, 1, 2]`` within them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def starts(lengths: Tensor) -> Tensor:
    """Return the start index of each segment, ``[R]``, from the lengths ``[R]``."""
    return lengths.cumsum(0) - lengths


def boundaries(lengths: Tensor) -> Tensor:
    """Return the start indices of all segments, then the end of the last one, ``[R + 1]``."""
    return F.pad(lengths.cumsum(0), (1, 0))


def segment_index(lengths: Tensor, total: int | None = None) -> Tensor:
    """Return the segment index of each element, ``[N]``: lengths 2, 0, 3 give 0, 0, 2, 2, 2.

    A known ``total`` avoids waiting for the device. ``repeat_interleave`` would start all threads
    even for a few numbers, which takes milliseconds while other processes use the cores.
    """
    stop = lengths.cumsum(0)
    if total is None:
        total = int(stop[-1].item()) if len(stop) else 0
        torch._check(total >= 0)  # This tells torch.export that total is a valid size.
    ended = stop.new_zeros(total + 1).scatter_add_(0, stop, torch.ones_like(stop))
    return ended[:total].cumsum(0)


def runs_and_positions(lengths: Tensor, total: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the segment of each element and its position within the segment, ``[N]`` each."""
    run = segment_index(lengths, total)
    index = torch.arange(run.numel(), device=lengths.device)
    return run, index - starts(lengths)[run]


def ranges(start: Tensor, lengths: Tensor) -> Tensor:
    """Return the concatenated ranges ``start[r], ..., start[r] + lengths[r] - 1``."""
    run, position = runs_and_positions(lengths)
    return start[run] + position


def chosen(counts: Tensor, fraction: float, generator: torch.Generator | None = None) -> Tensor:
    """Return a mask ``[N]`` that selects a random fraction, rounded up, of each segment."""
    segment = torch.arange(len(counts)).repeat_interleave(counts)
    # Sort the elements by segment, in random order within each segment.
    order = torch.rand(len(segment), generator=generator, dtype=torch.double).argsort()
    order = order[segment[order].argsort(stable=True)]
    rank = ranges(torch.zeros_like(counts), counts)
    mask = torch.empty(len(segment), dtype=torch.bool)
    mask[order] = rank < (fraction * counts).ceil()[segment]
    return mask
