"""Learned position embeddings in one and two dimensions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise._utils.torch_internals import has_values
from edgewise.encodings.positions import positions_or_count


class Learned(nn.Module):
    """Add a learned vector for each position, :math:`x_p + T_p` (BERT, ViT).

    Args:
        std: standard deviation of the initial vectors.

    Example:
        >>> import torch
        >>> from edgewise import encodings
        >>> encodings.Learned(512, 16)(torch.randn(2, 10, 16)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(self, length: int, width: int, *, std: float = 0.02) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(length, width))
        nn.init.normal_(self.table, std=std)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Add the vectors of ``positions``, by default 0 to T - 1, to x ``[..., T, width]``.

        Raises:
            ArgumentError: a position is out of range.
        """
        if positions is None:
            self._check(x.shape[-2])
            return x + self.table[: x.shape[-2]]
        if positions.numel() and has_values(positions):
            self._check(int(positions.max()) + 1)
        return x + self.table[positions]

    def _check(self, nodes: int) -> None:
        if nodes > self.table.shape[0]:
            raise ArgumentError(
                "x",
                expected=f"at most {self.table.shape[0]} nodes, the number of learned positions",
                got=f"{nodes} nodes",
                remedy="build the model with a larger max_length, pass a larger positions= to "
                "huggingface.load, or use sinusoidal positions",
            )


class Learned2d(nn.Module):
    """Add learned vectors for row and column of a grid, :math:`x_{rc} + R_r + C_c` (2-D ViT).

    Args:
        std: standard deviation of the initial vectors.

    Example:
        >>> import torch
        >>> from edgewise import encodings
        >>> encodings.Learned2d(4, 5, 16)(torch.randn(2, 20, 16)).shape
        torch.Size([2, 20, 16])
    """

    def __init__(self, rows: int, columns: int, width: int, *, std: float = 0.02) -> None:
        super().__init__()
        self.row, self.column = (Learned(count, width, std=std) for count in (rows, columns))

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Add row and column vectors to x ``[..., rows · columns, width]``, in raster order.

        ``positions`` are the raster indices of the nodes, if they are others.

        Raises:
            ArgumentError: x has more nodes than the grid.
        """
        position = positions_or_count(x, positions)
        columns = self.column.table.shape[0]
        row = torch.div(position, columns, rounding_mode="floor")
        out: Tensor = self.column(self.row(x, row), position % columns)
        return out
