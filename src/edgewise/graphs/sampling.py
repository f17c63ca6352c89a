"""Sampling without replacement, many small samples at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def distinct_numbers(
    rows: int, count: int, below: int | Tensor, draw: Callable[[Any], Tensor]
) -> Tensor:
    """``[rows, count]``: in each row distinct numbers below ``below``, every subset as likely.

    Floyd's algorithm (Bentley and Floyd, 1987), all rows at once: the k-th draw is below
    ``below - count + k + 1``, and where it was drawn before, the largest of these, which cannot
    have been, takes its place. It needs no memory for the numbers that are not drawn.

    Args:
        rows: how many samples.
        count: of numbers in a sample, at most ``below``.
        below: one bound for all rows, or one for each.
        draw: called with a bound like ``below``; gives a number below it for each row.
    """
    chosen = torch.empty(rows, count, dtype=torch.long)
    for k in range(count):
        largest = below - count + k
        number = draw(largest + 1)
        taken = (chosen[:, :k] == number[:, None]).any(dim=1)
        chosen[:, k] = torch.where(taken, largest, number)
    return chosen
