"""Runs of different lengths one after the other on one axis, as in packed batches and sorted edges.

For lengths ``[2, 0, 3]``, the five places of the axis belong to the runs ``[0, 0, 2, 2, 2]`` and
have the positions ``[0, 1, 0, 1, 2]`` in them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def starts(lengths: Tensor) -> Tensor:
    """Where each run begins, ``[R]``."""
    return lengths.cumsum(0) - lengths


def boundaries(lengths: Tensor) -> Tensor:
    """Where each run begins, and where the last one ends, ``[R + 1]``."""
    return F.pad(lengths.cumsum(0), (1, 0))


def run_of_each(lengths: Tensor, total: int | None = None) -> Tensor:
    """The run that each place of the axis is in, ``[N]``.

    Where N is known, ``total``, nobody waits for a GPU to add up the lengths. Not by
    ``repeat_interleave``, which wakes all threads for three numbers: beside other busy processes
    that takes milliseconds.
    """
    stop = lengths.cumsum(0)
    if total is None:
        total = int(stop[-1].item()) if len(stop) else 0
        torch._check(total >= 0)  # so that torch.export may take it for a size
    ended = stop.new_zeros(total + 1).scatter_add_(0, stop, torch.ones_like(stop))
    return ended[:total].cumsum(0)


def runs_and_positions(lengths: Tensor, total: int | None = None) -> tuple[Tensor, Tensor]:
    """The run that each place of the axis is in, and its position in that run, ``[N]`` each."""
    run = run_of_each(lengths, total)
    index = torch.arange(run.numel(), device=lengths.device)
    return run, index - starts(lengths)[run]


def ranges(start: Tensor, lengths: Tensor) -> Tensor:
    """``lengths[0]`` numbers from ``start[0]`` on, then those from ``start[1]`` on, and so on."""
    run, position = runs_and_positions(lengths)
    return start[run] + position
