"""Learned positions: a free vector for every index, in one dimension or two."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.encodings.positions import positions_or_count
from edgewise.errors import ArgumentError


class Learned(nn.Module):
    """Add a learned vector to the features of each node, by its position (BERT, ViT).

    Args:
        length: how many positions there are.
        width: of the features.
        std: of the vectors before they learn.
    """

    def __init__(self, length: int, width: int, *, std: float = 0.02) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(length, width))
        nn.init.normal_(self.table, std=std)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """``[..., T, width]`` from x of that shape and positions ``[..., T]``, else 0, 1, ...

        Raises:
            ArgumentError: a position beyond the table.
        """
        if positions is None:
            self._check(x.shape[-2])
            return x + self.table[: x.shape[-2]]
        if positions.numel() and not positions.is_meta:
            self._check(int(positions.max()) + 1)
        return x + self.table[positions]

    def _check(self, nodes: int) -> None:
        if nodes > self.table.shape[0]:
            raise ArgumentError(
                "x",
                expected=f"at most {self.table.shape[0]} nodes, as many as there are positions",
                got=f"{nodes} nodes",
                remedy="make the model with a larger length, load its weights with positions=, or "
                "use sinusoidal positions",
            )


class Learned2d(nn.Module):
    """Add a learned vector for the row and one for the column of a node on a grid (ViT's 2-D form).

    With as many weights as rows + columns, not rows × columns; rows and columns are independent.

    Args:
        rows, columns: of the grid.
        width: of the features.
        std: of the vectors before they learn.
    """

    def __init__(self, rows: int, columns: int, width: int, *, std: float = 0.02) -> None:
        super().__init__()
        self.row, self.column = (Learned(count, width, std=std) for count in (rows, columns))

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """``[..., rows · columns, width]`` from x of that shape, the nodes in raster order.

        Raises:
            ArgumentError: a node beyond the last row.
        """
        position = positions_or_count(x, positions)
        columns = self.column.table.shape[0]
        row = torch.div(position, columns, rounding_mode="floor")
        out: Tensor = self.column(self.row(x, row), position % columns)
        return out
