"""Sampling without replacement for many rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def distinct_numbers(
    rows: int, count: int, below: int | Tensor, draw: Callable[[Any], Tensor]
) -> Tensor:
    """Sample ``count`` distinct integers below ``below`` in each row, ``[rows, count]``.

    This is Floyd's algorithm (Bentley and Floyd, 1987) on all rows at once. Sample k is uniform
    below ``below - count + k + 1``; if the row already has this number, it is replaced by the
    largest number of the range, which the row cannot have yet. Memory does not depend on ``below``.

    Args:
        rows: number of rows.
        count: sample size, at most ``below``.
        below: exclusive upper bound, one for all rows or one per row.
        draw: function from a bound like ``below`` to one random integer per row.
    """
    chosen = torch.empty(rows, count, dtype=torch.long)
    for k in range(count):
        largest = below - count + k
        number = draw(largest + 1)
        taken = (chosen[:, :k] == number[:, None]).any(dim=1)
        chosen[:, k] = torch.where(taken, largest, number)
    return chosen
