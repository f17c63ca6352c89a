"""Intimate nodes of Graph-BERT: for each node, the nodes of highest personalised PageRank.

Paper: Zhang et al., Graph-BERT: only attention is needed for learning graph representations, 2020
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range, checked
from edgewise.encodings.distances import FAR, hops
from edgewise.encodings.members import SQUARE, members_by_size
from edgewise.graphs import Graph, check_square
from edgewise.graphs.graph import fact_of_graph


class Intimates(NamedTuple):
    """Concatenated lists of the most intimate nodes of each node, which begin with the node itself.

    Attributes:
        sizes: length of each list, ``[N]``.
        nodes: node indices of all lists, ``[S]``.
        hops: shortest-path length from each node to the owner of its list, ``[S]``.

    Example:
        >>> from edgewise import encodings, graphs
        >>> encodings.intimate_nodes(graphs.grid(2, 2).bind(4), 1).hops
        tensor([0, 1, 0, 1, 0, 1, 0, 1])
    """

    sizes: Tensor
    nodes: Tensor
    hops: Tensor


@fact_of_graph
@checked(num_neighbours=0)
def intimate_nodes(graph: Graph, num_neighbours: int, alpha: float = 0.15) -> Intimates:
    """Return each node and its ``num_neighbours`` nodes of highest personalised PageRank.

    .. math:: S = α (I - (1 - α) D^{-1} A)^{-1}

    ``S[i, j]`` is the probability that a random walk from i (from targets to sources), which
    restarts with probability α, is at j. Unreachable nodes are not listed. Ties go to the lower
    index.

    Raises:
        ArgumentError: a graph of the packed batch has more than 8,192 nodes, or ``alpha`` is not
            between 0 and 1.

    Example:
        >>> from edgewise import encodings, graphs
        >>> ring = graphs.grid(2, 2).bind(4)
        >>> encodings.intimate_nodes(ring, 1).sizes  # each node itself, and one other
        tensor([2, 2, 2, 2])
    """
    check_square(graph, SQUARE)
    check_range("alpha", alpha, "choose for example 0.15", above=0, below=1)
    nodes = torch.full((graph.num_targets, num_neighbours + 1), FAR, device=graph.device)
    steps = torch.full_like(nodes, FAR)
    for members in members_by_size(graph):
        count, n = members.nodes.shape
        eye = torch.eye(n, dtype=torch.double, device=graph.device)
        intimacy = alpha * torch.linalg.inv(eye - (1 - alpha) * members.walk())
        intimacy.diagonal(dim1=1, dim2=2).fill_(torch.inf)
        chosen = intimacy.argsort(dim=2, descending=True, stable=True)[..., : num_neighbours + 1]
        pairs = torch.zeros(count, n, n, dtype=torch.bool, device=graph.device)
        pairs.scatter_(2, chosen, True)
        num_chosen = chosen.shape[2]
        steps[members.nodes, :num_chosen] = hops(members, pairs).gather(2, chosen)
        row = members.nodes[:, None, :].expand(-1, n, -1)
        nodes[members.nodes, :num_chosen] = row.gather(2, chosen)
    is_reachable = steps != FAR
    return Intimates(is_reachable.sum(1), nodes[is_reachable], steps[is_reachable])
