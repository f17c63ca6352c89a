"""Rotary position embedding of queries and keys."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError


def rotary_rates(width: int, base: float = 10000.0) -> Tensor:
    r"""Return the rotation rates in radians per position, :math:`\omega_i = base^{-2i/width}`.

    Example:
        >>> from edgewise import encodings
        >>> encodings.rotary_rates(4)
        tensor([1.0000, 0.0100], dtype=torch.float64)
    """
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


class Rotary(nn.Module):
    r"""Rotate pairs of entries of queries and keys by angles of position times rate (RoFormer).

    .. math:: (x_i, x_{i + D/2}) \mapsto (x_i \cos p\omega_i - x_{i + D/2} \sin p\omega_i,\;
              x_{i + D/2} \cos p\omega_i + x_i \sin p\omega_i)

    The inner product of a query at position p and a key at position p' depends only on p - p'.
    Entry i is paired with entry i + D/2, as in Llama's published weights. Paper: Su et al.,
    RoFormer, 2021.

    Args:
        base: the longest wavelength is about 2π · base positions.
        rates: rotation rates ``[D / 2]`` in radians per position; by default given by ``base``.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> from edgewise.layers import MultiHeadAttention
        >>> attention = MultiHeadAttention(32, 4, rotary=encodings.Rotary(8))
        >>> attention(torch.randn(10, 32), graphs.causal()).shape
        torch.Size([10, 32])
    """

    rates: Tensor

    def __init__(self, width: int, base: float = 10000.0, *, rates: Tensor | None = None) -> None:
        super().__init__()
        if width % 2:
            raise ArgumentError(
                "width",
                expected="an even head width, because entries are rotated in pairs",
                got=repr(width),
                remedy="choose a hidden size that is a multiple of twice the number of heads",
            )
        rates = rotary_rates(width, base) if rates is None else rates
        self.register_buffer("rates", rates.float(), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rotary:
        """Move and cast with the model, but keep the rates in float32, for accurate angles."""
        rates = self.rates
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if torch.finfo(self.rates.dtype).bits < 32:
            self.rates = rates.to(self.rates.device)
        return self

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Rotate x ``[..., T, H, D]`` by the angles of ``positions``, by default 0 to T - 1."""
        if positions is None:
            positions = torch.arange(x.shape[-3], device=x.device)
        wide = torch.promote_types(x.dtype, torch.float32)  # 16 bits are too few for angles.
        angle = (positions[..., None].to(wide) * self.rates.to(wide))[..., None, :]
        dtype = x.dtype if x.is_floating_point() else wide
        first, second = x.chunk(2, dim=-1)
        cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
