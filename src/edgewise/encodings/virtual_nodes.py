"""Indices of nodes and pairs in a batch of graphs with a virtual node before each graph.

Graphormer attends over all pairs of the n + 1 nodes of each graph; ``sizes`` holds the numbers n.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise._utils.ragged import ranges, runs_and_positions, starts


def with_virtual_nodes(sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the indices of the virtual nodes ``[G]`` and of the real nodes ``[N]`` of a batch."""
    virtual = starts(sizes + 1)
    return virtual, ranges(virtual + 1, sizes)


def real_pairs(sizes: Tensor) -> Tensor:
    """Return the indices ``[P]`` of the pairs of real nodes among all pairs of a batch."""
    side = sizes + 1
    graph, node = runs_and_positions(sizes)  # Each real node is the target of one row of pairs.
    row = starts(side.square())[graph] + (node + 1) * side[graph]
    return ranges(row + 1, sizes[graph])


def with_virtual_pairs(classes: Tensor, sizes: Tensor, virtual_class: int) -> Tensor:
    """Return the class of each pair, given those of pairs of real nodes and of all others."""
    total = int((sizes + 1).square().sum())
    all_classes = torch.full((total,), virtual_class, device=classes.device)
    return all_classes.index_copy(0, real_pairs(sizes), classes.long())
