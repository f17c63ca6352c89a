"""Bipartite incidence graph of edges and their targets."""

from __future__ import annotations

import torch

from edgewise.graphs.convert import check_sized
from edgewise.graphs.graph import Edges, Graph


def incidence(graph: Graph) -> Edges:
    """Return the bipartite graph that connects each edge of ``graph`` with its target.

    Its sources are the E edges of ``graph`` and its targets are the targets of ``graph``.
    ``aggregate(messages, incidence(graph))`` sums messages ``[E, F]`` at their targets.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> graph = graphs.edges(torch.tensor([[0, 1, 2], [1, 1, 0]]), 3)
        >>> graphs.incidence(graph).dense().long()  # 3 targets, 3 edges
        tensor([[0, 0, 1],
                [1, 1, 0],
                [0, 0, 0]])
    """
    check_sized(graph)

    def make() -> Edges:
        edge = torch.arange(graph.num_edges, device=graph.device)
        pairs = torch.stack([edge, graph.target])
        return Edges(pairs, graph.num_targets, graph.num_edges)

    return graph.cached("incidence", make)
