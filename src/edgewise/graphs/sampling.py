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

    This is Floyd's algorithm (Bentley and Floyd, 1987) for all rows at once, whose memory does not
    depend on ``below``. ``draw(n)`` samples an integer from 0 to n - 1 for each row, ``[rows]``.
    """
    chosen = torch.empty(rows, count, dtype=torch.long)
    for k in range(count):
        largest = below - count + k
        number = draw(largest + 1)
        # A row that already has the number takes the largest, which it cannot have yet.
        taken = (chosen[:, :k] == number[:, None]).any(dim=1)
        chosen[:, k] = torch.where(taken, largest, number)
    return chosen
