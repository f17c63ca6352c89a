"""Indices of nodes and pairs in a batch of graphs with a virtual node before each graph.

Graphormer puts one virtual node before the nodes of each graph and attends over all pairs, so a
graph of n nodes has n + 1 rows of n + 1 pairs. The argument ``sizes`` holds the number of real
nodes n of each graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise._utils.ragged import ranges, runs_and_positions, starts
from edgewise.graphs import Graph, Intervals


def with_virtual_nodes(sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the indices of the virtual nodes ``[G]`` and of the real nodes ``[N]`` of a batch.

    ``sizes`` ``[G]`` is the number of real nodes of each graph; one virtual node precedes them.
    """
    virtual = starts(sizes + 1)
    return virtual, ranges(virtual + 1, sizes)


def real_pairs(sizes: Tensor) -> Tensor:
    """Return the indices ``[P]`` of the pairs of real nodes among all pairs of a batch.

    All pairs are the edges of ``graphs.batch(graphs.complete(), sizes + 1)``, and the pairs of real
    nodes are those of ``graphs.batch(graphs.complete(), sizes)``, both in their order.
    """
    side = sizes + 1
    graph, node = runs_and_positions(sizes)  # Each real node is the target of one row of pairs.
    row = starts(side.square())[graph] + (node + 1) * side[graph]
    return ranges(row + 1, sizes[graph])


def graphs_of_outputs(sizes: Tensor, membership: Graph) -> Tensor:
    """Return the index of the graph that each of B outputs pools, ``[B]``.

    Args:
        sizes: number of nodes of each graph of the batch, ``[G]``.
        membership: bipartite graph from nodes to outputs, as of ``graphs.membership``. Each output
            pools the nodes of one graph.
    """
    assert isinstance(membership, Intervals)
    known = 2 * starts(sizes) + (sizes > 0)  # An empty graph starts where the next graph starts.
    wanted = 2 * membership.start + (membership.stop > membership.start)
    return torch.searchsorted(known, wanted.to(known.device))


def with_virtual_pairs(classes: Tensor, sizes: Tensor, virtual_class: int) -> Tensor:
    """Return the class index of each pair of nodes, real or virtual.

    Args:
        classes: class indices of the P pairs of real nodes, ``[P]``.
        sizes: number of real nodes of each graph, ``[G]``.
        virtual_class: class of the pairs that contain a virtual node.
    """
    total = int((sizes + 1).square().sum())
    every = torch.full((total,), virtual_class, device=classes.device)
    return every.index_copy(0, real_pairs(sizes), classes.long())
