"""Indices of nodes and pairs in a batch of graphs with a virtual node before each graph.

Graphormer attends over all pairs of the n + 1 nodes of each graph.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.ragged import ranges, runs_and_positions, starts
from edgewise.encodings.members import member_sizes
from edgewise.graphs import Graph, batch, complete


class VirtualNodes(NamedTuple):
    """A batch of G graphs with N nodes in all, to which virtual nodes are added."""

    virtual: Tensor
    """Indices of the virtual nodes, ``[G]``."""
    real: Tensor
    """Indices of the real nodes, ``[N]``."""
    pairs: Graph
    """Complete graph of the nodes of each graph."""
    real_pairs: Tensor
    """Indices ``[P]`` of the pairs of real nodes among the edges of ``pairs``."""

    def classes(self, of_real_pairs: Tensor, virtual_class: int) -> Tensor:
        """Return the class of each pair, given those of pairs of real nodes and of all others."""
        classes = of_real_pairs.new_full((self.pairs.num_edges,), virtual_class, dtype=torch.long)
        return classes.index_copy(0, self.real_pairs, of_real_pairs.long())


def with_virtual_nodes(graph: Graph) -> VirtualNodes:
    """Add a virtual node before each graph of a batch; call it as ``graph.derived(...)``."""
    sizes = member_sizes(graph)
    virtual = starts(sizes + 1)
    pairs = batch(complete(), sizes + 1).to(graph.device)
    return VirtualNodes(virtual, ranges(virtual + 1, sizes), pairs, _real_pairs(sizes))


def _real_pairs(sizes: Tensor) -> Tensor:
    side = sizes + 1
    graph, node = runs_and_positions(sizes)  # Each real node is the target of one row of pairs.
    row = starts(side.square())[graph] + (node + 1) * side[graph]
    return ranges(row + 1, sizes[graph])
