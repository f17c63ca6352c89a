"""Position encodings for comparison: the index as a number, scaled, or as binary digits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.encodings.positions import positions_or_count


def scaled_positions(positions: Tensor) -> Tensor:
    r"""Return positions p divided by the sequence length n, from 0 to below 1, ``[..., T, 1]``.

    Each position 0 starts a new sequence. Drawback: the code of a position depends on the length
    (0.2 is position 1 of 5 and 2 of 10), so a model does not generalise to new lengths.

    Example:
        >>> import torch
        >>> from edgewise import encodings
        >>> encodings.scaled_positions(torch.arange(4))
        tensor([[0.0000],
                [0.2500],
                [0.5000],
                [0.7500]], dtype=torch.float64)
    """
    begins = (positions == 0).long().cumsum(-1)
    slots = begins.new_zeros(*positions.shape[:-1], positions.shape[-1] + 1)
    lengths = slots.scatter_reduce(-1, begins, positions + 1, "amax").gather(-1, begins)
    return (positions.double() / lengths)[..., None]


def binary_positions(positions: Tensor, bits: int) -> Tensor:
    """Return the binary digits of each position, lowest digit last, ``[..., T, bits]``.

    Drawback: neighbours such as 3 = 011 and 4 = 100 can differ in every digit.

    Raises:
        ArgumentError: a position needs more digits.

    Example:
        >>> import torch
        >>> from edgewise import encodings
        >>> encodings.binary_positions(torch.arange(4), bits=2)
        tensor([[0., 0.],
                [0., 1.],
                [1., 0.],
                [1., 1.]], dtype=torch.float64)
    """
    if positions.numel() and int(positions.max()) >= 2**bits:
        raise ArgumentError(
            "positions",
            expected=f"positions below {2**bits}, the number of codes of {bits} bits",
            got=f"position {int(positions.max())}",
            remedy="create the encoding with more bits",
        )
    shift = torch.arange(bits - 1, -1, -1, device=positions.device)
    return (positions.long()[..., None] >> shift & 1).double()


class RawIndex(nn.Module):
    """Add a learned vector times the position, :math:`x_p + p w`.

    Drawback: at position 500 the code is 500 times as large as at position 1.

    Example:
        >>> import torch
        >>> from edgewise import encodings
        >>> encodings.RawIndex(16)(torch.randn(2, 10, 16)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(1, width, bias=False)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Add the encodings of ``positions``, by default 0 to T - 1, to x ``[..., T, width]``."""
        out: Tensor = x + self.project(positions_or_count(x, positions)[..., None].to(x))
        return out


class ScaledIndex(nn.Module):
    """Add a learned vector times the scaled position, :math:`x_p + (p / n) w`.

    Example:
        >>> import torch
        >>> from edgewise import encodings
        >>> encodings.ScaledIndex(16)(torch.randn(2, 10, 16)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(1, width, bias=False)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Add the encodings of ``positions``, by default 0 to T - 1, to x ``[..., T, width]``."""
        code = scaled_positions(positions_or_count(x, positions))
        out: Tensor = x + self.project(code.to(x))
        return out


class Binary(nn.Module):
    r"""Add a learned vector for each digit that is 1, :math:`x_p + \sum_b \mathrm{bit}_b(p) w_b`.

    Args:
        bits: number of digits; the largest position is 2^bits - 1.

    Example:
        >>> import torch
        >>> from edgewise import encodings
        >>> encodings.Binary(16)(torch.randn(2, 10, 16)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(self, width: int, bits: int = 16) -> None:
        super().__init__()
        self.bits = bits
        self.project = nn.Linear(bits, width, bias=False)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Add the encodings of ``positions``, by default 0 to T - 1, to x ``[..., T, width]``."""
        code = binary_positions(positions_or_count(x, positions), self.bits)
        out: Tensor = x + self.project(code.to(x))
        return out
