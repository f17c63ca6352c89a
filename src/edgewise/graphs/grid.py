"""Grid graphs, such as the pixels of an image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError, counted
from edgewise.graphs.graph import Edges, Graph, Pattern


@dataclass(frozen=True, repr=False)
class Grid(Pattern):
    """Grid of ``height × width`` nodes in raster order; each attends to its 4 or 8 neighbours.

    There are no self-loops. ``grid(h, w, 8).with_self_loops()`` is the receptive field of a 3×3
    convolution.

    Example:
        >>> from edgewise import graphs
        >>> graphs.grid(2, 2).bind(4).dense().long()
        tensor([[0, 1, 1, 0],
                [1, 0, 0, 1],
                [1, 0, 0, 1],
                [0, 1, 1, 0]])
    """

    height: int
    width: int
    neighbours: int = 4

    def __post_init__(self) -> None:
        check_range("height", self.height, "pass the number of rows", least=0, integer=True)
        check_range("width", self.width, "pass the number of columns", least=0, integer=True)
        if self.neighbours not in (4, 8):
            raise ArgumentError(
                "neighbours",
                expected="4, or 8 to include diagonal neighbours",
                got=repr(self.neighbours),
                remedy="pass 4 or 8; for a larger neighbourhood, use grid(...).power(k)",
            )

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        if not num_targets == num_sources == self.height * self.width:
            self._refuse(counted(self.height * self.width, "node"), num_targets, num_sources)
        row, column = _rows_and_columns(self.height, self.width)
        reach = [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)]
        steps = [s for s in reach if self.neighbours == 8 or 0 in s]
        down, right = torch.tensor(steps).T
        near_row, near_column = row[:, None] + down, column[:, None] + right
        inside = (near_row >= 0) & (near_row < self.height)
        inside &= (near_column >= 0) & (near_column < self.width)
        target, _ = inside.nonzero(as_tuple=True)
        source = (near_row * self.width + near_column)[inside]
        return GridGraph(self.height, self.width, torch.stack([source, target]))


class GridGraph(Edges):
    """Graph of a grid; drawings place its nodes at their rows and columns."""

    def __init__(self, height: int, width: int, edge_index: Tensor) -> None:
        super().__init__(edge_index, height * width, height * width)
        self.height, self.width = height, width

    def positions(self) -> Tensor:
        row, column = _rows_and_columns(self.height, self.width)
        return torch.stack([column, -row], dim=1).float()


def _rows_and_columns(height: int, width: int) -> tuple[Tensor, Tensor]:
    node = torch.arange(height * width)
    return torch.div(node, max(width, 1), rounding_mode="floor"), node % max(width, 1)
