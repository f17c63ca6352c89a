"""Dense adjacency matrices of the graphs of a batch, grouped by number of nodes.

Thousands of molecules have a few dozen sizes, so graphs of equal size are processed at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import runs_and_positions, segment_index, starts
from edgewise.graphs import Graph, Pattern, batch, check_square, complete
from edgewise.graphs.graph import fact_of_graph

AT_ONCE = 2**22  # Maximum number of matrix entries per chunk.
SQUARE = "pass a graph whose sources and targets are the same nodes"
LARGEST = 8192  # maximum number of nodes per graph; a float64 matrix takes 512 MB


class Members(NamedTuple):
    """Adjacency matrices of B graphs with n nodes each of a batch."""

    graph_ids: Tensor
    """Indices of these graphs in the batch, ``[B]``."""
    nodes: Tensor
    """Indices of their nodes among all nodes of the batch, ``[B, n]``."""
    adjacency: Tensor
    """Float64 matrices ``[B, n, n]``; ``[b, i, j]`` is 1 for an edge from source j to target i."""

    def without_loops(self) -> Tensor:
        """Return the adjacency matrices ``[B, n, n]`` with diagonal 0 (no self-loops)."""
        adjacency = self.adjacency.clone()
        adjacency.diagonal(dim1=1, dim2=2).zero_()
        return adjacency

    def walk(self) -> Tensor:
        """Return the probabilities ``[B, n, n]`` that a walk at target i steps to source j."""
        return self.adjacency / self.adjacency.sum(2, keepdim=True).clamp(min=1)


@fact_of_graph
def member_sizes(graph: Graph) -> Tensor:
    """Return the number of nodes of each of the G graphs of a batch, ``[G]``."""
    check_square(graph, SQUARE)
    if graph.segments is None:
        return torch.tensor([graph.num_targets], device=graph.device)
    sizes, sources = graph.segments
    if sizes is not sources and not torch.equal(sizes, sources):
        raise ArgumentError(
            "graph",
            expected="graphs with as many targets as sources",
            got=repr(graph),
            remedy=SQUARE,
        )
    return sizes.to(graph.device)


def member_graphs(graph: Graph, pattern: Pattern = complete()) -> Graph:
    """Return the packed graph of a pattern on the nodes of each graph of a batch."""
    return graph.derived(_member_graphs, pattern)


def _member_graphs(graph: Graph, pattern: Pattern) -> Graph:
    return batch(pattern, member_sizes(graph)).to(graph.device)


def members_by_size(graph: Graph) -> Iterator[Members]:
    """Yield the graphs of a batch, grouped by number of nodes, in chunks that fit into memory."""
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
        for graph_ids in same.split(max(1, AT_ONCE // size**2)):
            row, offset = runs_and_positions(count[graph_ids])
            edge = by_member[first[graph_ids][row] + offset]
            adjacency = torch.zeros(
                len(graph_ids), size, size, dtype=torch.double, device=sizes.device
            )
            adjacency[row, target[edge], source[edge]] = 1
            nodes = start[graph_ids, None] + torch.arange(size, device=sizes.device)
            yield Members(graph_ids, nodes, adjacency)


def check_undirected(members: Members) -> None:
    """Raise ArgumentError if a graph has an edge without the reverse edge."""
    is_directed = (members.adjacency != members.adjacency.mT).flatten(1).any(1)
    if bool(is_directed.any()):
        raise ArgumentError(
            "graph",
            expected="an undirected graph, every edge in both directions",
            got="edges in one direction only, in graph "
            f"{int(members.graph_ids[is_directed][0])} of the batch",
            remedy="add the reverse edges: graph | graph.transpose()",
        )


def pair_index(graph: Graph, members: Members) -> Tensor:
    """Return the indices ``[B, n · n]`` of pairs of nodes among all pairs of the batch."""
    first = starts(member_sizes(graph).square())
    pairs = torch.arange(members.nodes.shape[1] ** 2, device=members.nodes.device)
    return first[members.graph_ids, None] + pairs


@fact_of_graph
def pair_of_edge(graph: Graph) -> Tensor:
    """Return the index of each edge among all pairs of nodes of the batch, ``[E]``."""
    sizes = member_sizes(graph)
    member = segment_index(sizes, graph.num_targets)[graph.target]
    target, source = (end - starts(sizes)[member] for end in (graph.target, graph.source))
    return starts(sizes.square())[member] + target * sizes[member] + source
