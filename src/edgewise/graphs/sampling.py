"""Random sampling of integers without replacement, for many rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def distinct_numbers(
    rows: int, count: int, below: int | Tensor, draw: Callable[[Any], Tensor]
) -> Tensor:
    """Return ``[rows, count]`` random integers from 0 to ``below - 1``, distinct within each row.

    This is Floyd's algorithm (Bentley and Floyd, 1987) for all rows at once. It samples number k
    uniformly from 0 to ``below - count + k``. If the row already has this number, it takes
    ``below - count + k`` instead, which the row cannot have yet. Memory does not depend on
    ``below``.

    Args:
        rows: number of rows.
        count: number of integers in each row, at most ``below``.
        below: exclusive upper bound of the integers: one for all rows, or ``[rows]``.
        draw: function that maps an exclusive upper bound, such as ``below``, to one random integer
            from 0 for each row, ``[rows]``.
    """
    chosen = torch.empty(rows, count, dtype=torch.long)
    for k in range(count):
        largest = below - count + k
        number = draw(largest + 1)
        taken = (chosen[:, :k] == number[:, None]).any(dim=1)
        chosen[:, k] = torch.where(taken, largest, number)
    return chosen
