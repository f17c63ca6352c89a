"""Sinusoidal position encoding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_even
from edgewise._utils.dispatch_modes import disable_modes


def sinusoidal_positions(positions: Tensor, width: int, base: float = 10000.0) -> Tensor:
    r"""Return sines and cosines of positions, ``[..., width]`` (Vaswani et al., 2017).

    .. math:: PE(p, 2i) = \sin(p\,\omega_i), \quad PE(p, 2i+1) = \cos(p\,\omega_i), \quad
              \omega_i = \mathrm{base}^{-2i/\mathrm{width}}

    PE(p + k) is a rotation of PE(p) that depends on k only, and
    :math:`PE(p)^\top PE(p + k) = \sum_i \cos k \omega_i`.

    Args:
        base: the longest wavelength is about 2π · base positions.

    Example:
        >>> import torch
        >>> from edgewise import encodings
        >>> encodings.sinusoidal_positions(torch.arange(2), 4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 1.0000]], dtype=torch.float64)
    """
    check_even("width", width, "positions are pairs of sine and cosine")
    rate = base ** (
        -torch.arange(0, width, 2, device=positions.device, dtype=torch.float64) / width
    )
    angle = positions[..., None].double() * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class Sinusoidal(nn.Module):
    """Add :func:`sinusoidal_positions` of its position to each node, :math:`x_p + PE(p)`.

    Args:
        base: the longest wavelength is about 2π · base positions.

    Example:
        >>> import torch
        >>> from edgewise import encodings
        >>> encodings.Sinusoidal(16)(torch.randn(2, 10, 16)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(self, width: int, base: float = 10000.0) -> None:
        super().__init__()
        self.width, self.base = width, base
        # Not a buffer: DDP and AveragedModel require buffers whose shape does not change.
        self._table = torch.empty(0, width)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Add the encodings of ``positions``, by default 0 to N - 1, to x ``[..., N, width]``."""
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        if positions is not None:
            return x + sinusoidal_positions(positions, self.width, self.base).to(x.device, dtype)
        n = x.shape[-2]
        if n > self._table.shape[0] or self._table.device != x.device:
            with disable_modes():
                index = torch.arange(n, device=x.device)
                self._table = sinusoidal_positions(index, self.width, self.base)
        return x + self._table[:n].to(dtype)
