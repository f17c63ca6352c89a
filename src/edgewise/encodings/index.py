"""The index as a number or as bits: the two codes that the lectures begin with, and reject."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.encodings.positions import positions_or_count
from edgewise.errors import ArgumentError


def scaled_positions(positions: Tensor) -> Tensor:
    r"""Code a position by its share of the length, :math:`p / n` in [0, 1), ``[..., T, 1]``.

    The problem: one position has another code in a sequence of another length (0.2 is position 1
    of 5 and position 2 of 10), so no length but the one it was trained on means anything.

    Args:
        positions: ``[..., T]``; a position of 0 begins a sequence of its own (a packed batch).
    """
    begins = (positions == 0).long().cumsum(-1)
    slots = begins.new_zeros(*positions.shape[:-1], positions.shape[-1] + 1)
    lengths = slots.scatter_reduce(-1, begins, positions + 1, "amax").gather(-1, begins)
    return (positions.double() / lengths)[..., None]


def binary_positions(positions: Tensor, bits: int) -> Tensor:
    """Code a position by its binary digits, the lowest last, ``[..., T, bits]``.

    The problem: nothing can be interpolated. The code half way between two codes is no position,
    and neighbours such as 3 = 011 and 4 = 100 differ in every digit.

    Raises:
        ArgumentError: a position needs more digits.
    """
    if positions.numel() and int(positions.max()) >= 2**bits:
        raise ArgumentError(
            "positions",
            expected=f"positions below {2**bits}, which {bits} bits can tell apart",
            got=f"position {int(positions.max())}",
            remedy="make the encoding with more bits",
        )
    shift = torch.arange(bits - 1, -1, -1, device=positions.device)
    return (positions.long()[..., None] >> shift & 1).double()


class ScaledIndex(nn.Module):
    """Add a learned vector times the position's share of the length (see the problem above).

    Args:
        width: of the features.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(1, width, bias=False)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """``[..., T, width]`` from x of that shape."""
        code = scaled_positions(positions_or_count(x, positions))
        out: Tensor = x + self.project(code.to(x))
        return out


class Binary(nn.Module):
    """Add a learned vector for every binary digit of the position that is 1.

    Args:
        width: of the features.
        bits: digits; positions reach to 2^bits - 1.
    """

    def __init__(self, width: int, bits: int = 16) -> None:
        super().__init__()
        self.bits = bits
        self.project = nn.Linear(bits, width, bias=False)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """``[..., T, width]`` from x of that shape."""
        code = binary_positions(positions_or_count(x, positions), self.bits)
        out: Tensor = x + self.project(code.to(x))
        return out
