"""Dense adjacency matrices of the graphs of a batch, grouped by number of nodes.

A batch of graphs is packed: their nodes follow each other on one axis. Encodings are computed from
the adjacency matrix of each graph. Thousands of molecules have only a few dozen different numbers
of nodes, so graphs of equal size are processed at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import runs_and_positions, segment_index, starts
from edgewise.graphs import Graph, check_square

AT_ONCE = 2**22  # Maximum number of matrix entries per chunk.
SQUARE = "pass a graph whose sources and targets are the same nodes"
LARGEST = 8192  # maximum number of nodes per graph; a float64 matrix takes 512 MB


class Members(NamedTuple):
    """Adjacency matrices of some graphs of a batch: B graphs with n nodes each.

    Attributes:
        which: indices of these graphs in the batch, ``[B]``.
        nodes: indices of their nodes among all nodes of the batch, ``[B, n]``.
        adjacency: float64 matrices ``[B, n, n]``; ``[b, i, j]`` is 1 if there is an edge from
            source j to target i.
    """

    which: Tensor
    nodes: Tensor
    adjacency: Tensor

    def without_loops(self) -> Tensor:
        """Return the adjacency matrices ``[B, n, n]`` with diagonal 0 (no self-loops)."""
        adjacency = self.adjacency.clone()
        adjacency.diagonal(dim1=1, dim2=2).zero_()
        return adjacency

    def walk(self) -> Tensor:
        """Return the transition matrices of random walks from targets to sources, ``[B, n, n]``.

        Entry ``[b, i, j]`` is the probability that a walk at target i steps to source j.
        """
        return self.adjacency / self.adjacency.sum(2, keepdim=True).clamp(min=1)


def member_sizes(graph: Graph) -> Tensor:
    """Return the number of nodes of each of the G graphs of a batch, ``[G]``."""
    check_square(graph, SQUARE)
    if graph.segments is None:
        return torch.tensor([graph.num_targets], device=graph.device)
    sizes, sources = graph.segments
    if not torch.equal(sizes, sources):
        raise ArgumentError(
            "graph",
            expected="graphs with as many targets as sources",
            got=repr(graph),
            remedy=SQUARE,
        )
    return sizes.to(graph.device)


def members_by_size(graph: Graph) -> Iterator[Members]:
    """Yield the graphs of a batch, grouped by number of nodes, in chunks that fit into memory.

    Raises:
        ArgumentError: the numbers of sources and targets differ, or a graph is too large for a
            dense matrix.
    """
    sizes = member_sizes(graph)
    if sizes.numel() and int(sizes.max()) > LARGEST:
        raise ArgumentError(
            "graph",
            expected=f"graphs of at most {LARGEST:,} nodes, so that all pairs fit into memory",
            got=f"a graph of {int(sizes.max()):,} nodes",
            remedy="choose an encoding without pairs, such as Centrality or WeisfeilerLehman",
        )
    start = starts(sizes)
    member = segment_index(sizes, graph.num_targets)
    owner = member[graph.target]
    source, target = graph.source - start[owner], graph.target - start[owner]
    by_member = owner.argsort(stable=True)
    count = torch.bincount(owner, minlength=len(sizes))
    first = starts(count)
    for size in sizes.unique().tolist():
        if size == 0:
            continue
        same = (sizes == size).nonzero()[:, 0]
        for which in same.split(max(1, AT_ONCE // size**2)):
            chosen = count[which]
            place, offset = runs_and_positions(chosen)
            edge = by_member[first[which][place] + offset]
            adjacency = torch.zeros(len(which), size, size, dtype=torch.double, device=sizes.device)
            adjacency[place, target[edge], source[edge]] = 1
            nodes = start[which, None] + torch.arange(size, device=sizes.device)
            yield Members(which, nodes, adjacency)


def check_undirected(members: Members) -> None:
    """Raise an error if one of the graphs ``members`` is directed.

    Raises:
        ArgumentError: a graph has an edge without the reverse edge.
    """
    causal = (members.adjacency != members.adjacency.mT).flatten(1).any(1)
    if bool(causal.any()):
        raise ArgumentError(
            "graph",
            expected="an undirected graph, every edge in both directions",
            got=f"edges in one direction only, in graph {int(members.which[causal][0])} of the "
            "batch",
            remedy="add the reverse edges: graph | graph.transpose()",
        )


def pair_starts(graph: Graph) -> Tensor:
    """Return the index of the first pair of each graph among all pairs of the batch, ``[G]``.

    Pairs are the edges of ``graphs.batch(graphs.complete(), sizes)``, in its order: by target, and
    for each target all nodes of the same graph as sources.
    """
    return starts(member_sizes(graph).square())


def pair_index(graph: Graph, members: Members) -> Tensor:
    """Return the indices of the pairs of nodes of some graphs among all pairs of the batch.

    Args:
        graph: batch of graphs; :func:`pair_starts` describes the order of its pairs.
        members: B graphs of this batch with n nodes each.

    Returns:
        Indices ``[B, n · n]``.
    """
    count = members.nodes.shape[1] ** 2
    pairs = torch.arange(count, device=members.nodes.device)
    return pair_starts(graph)[members.which, None] + pairs
