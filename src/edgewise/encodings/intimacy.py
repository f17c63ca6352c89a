"""Intimacy: which nodes a walk from a node is most often at (Graph-BERT's second and third codes).

Paper: Zhang et al., Graph-BERT: only attention is needed for learning graph representations, 2020
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from edgewise.arguments import check_from_zero, check_positive, check_share
from edgewise.encodings.distances import FAR, hops
from edgewise.encodings.members import SQUARE, members_by_size
from edgewise.graphs import Graph, check_square


class Intimates(NamedTuple):
    """For each node itself and those that it is most intimate with, one list after the other.

    Attributes:
        sizes: ``[N]``, how many each list has.
        nodes: ``[S]``, all lists; a node stands first in its own.
        hops: ``[S]``, how many steps lead from each to the node whose list it is in.

    """

    sizes: Tensor
    nodes: Tensor
    hops: Tensor


def intimate_nodes(graph: Graph, num_neighbours: int, alpha: float = 0.15) -> Intimates:
    r"""The nodes that a walk from node i, which turns back to it with probability α, is most at.

    .. math:: S = α (I - (1 - α) D^{-1} A)^{-1}

    Row i of S is personalised PageRank: how intimate i is with each node. The ``num_neighbours`` greatest of
    it count, without those that no walk reaches; of equals it is the one of lower number.

    Args:
        graph: a walk goes from a node to one that it reads.
        num_neighbours: how many nodes at most, besides itself.
        alpha: how likely a walk is to turn back in each step; above 0, below 1.

    Raises:
        ArgumentError: a member of a packed batch has more than 8,192 nodes, or ``alpha`` is not
            between 0 and 1.

    """
    check_square(graph, SQUARE)
    check_from_zero("num_neighbours", num_neighbours, "choose for example 7")
    check_positive("alpha", alpha, "choose for example 0.15")
    check_share("alpha", alpha, "choose for example 0.15")
    nodes = torch.full((graph.num_targets, num_neighbours + 1), FAR, device=graph.device)
    steps = torch.full_like(nodes, FAR)
    for members in members_by_size(graph):
        count, n = members.nodes.shape
        eye = torch.eye(n, dtype=torch.double, device=graph.device)
        intimacy = alpha * torch.linalg.inv(eye - (1 - alpha) * members.walk())
        intimacy.diagonal(dim1=1, dim2=2).fill_(torch.inf)
        chosen = intimacy.argsort(dim=2, descending=True, stable=True)[..., : num_neighbours + 1]
        wanted = torch.zeros(count, n, n, dtype=torch.bool, device=graph.device)
        wanted.scatter_(2, chosen, True)
        kept = chosen.shape[2]
        steps[members.nodes, :kept] = hops(members, wanted).gather(2, chosen)
        row = members.nodes[:, None, :].expand(-1, n, -1)
        nodes[members.nodes, :kept] = row.gather(2, chosen)
    there = steps != FAR
    return Intimates(there.sum(1), nodes[there], steps[there])
