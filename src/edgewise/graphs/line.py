"""Line graph: the edges of a graph as nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise._utils.limits import check_memory
from edgewise._utils.ragged import runs_and_positions, segment_index, starts
from edgewise.graphs.convert import check_square
from edgewise.graphs.graph import Edges, Graph

BYTES_PER_PAIR = 80
"""Bytes that :func:`line_graph` needs for each pair of edges at a node."""


def line_graph(graph: Graph) -> Edges:
    """Return the graph whose nodes are the E edges of ``graph``, joined if they share an end.

    Directions do not count: an edge and its reverse are joined, and so are two edges to the same
    node. No edge is joined to itself. A node of degree d joins at most d² pairs.

    The line graph of a packed batch is packed too, if the edges are in the order of the graphs.

    Raises:
        ArgumentError: the sources and targets of ``graph`` are not the same nodes, or the pairs of
            edges do not fit in memory.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> path = graphs.edges(torch.tensor([[0, 1, 2], [1, 2, 3]]), 4)
        >>> graphs.line_graph(path).dense().long()
        tensor([[0, 1, 0],
                [1, 0, 1],
                [0, 1, 0]])
    """
    check_square(graph, "pass a graph whose sources and targets are the same nodes")

    def make() -> Edges:
        count = graph.num_edges
        edge = torch.arange(count, device=graph.device).repeat(2)
        node = graph.edge_index.flatten()
        order = node.argsort(stable=True)
        edge, node = edge[order], node[order]
        degree = node.bincount(minlength=graph.num_targets)
        num_pairs = int(degree.square().sum())
        check_memory(
            "graph",
            BYTES_PER_PAIR * num_pairs,
            f"a line graph of {num_pairs:,} pairs of edges",
            "remove edges of the nodes with the highest degree",
        )
        first, position = runs_and_positions(degree[node])  # Each end meets all ends at its node.
        second = starts(degree)[node][first] + position
        source, target = edge[first], edge[second]
        # Two edges with both ends in common meet twice.
        keys = (target * count + source)[source != target].unique()
        pairs = torch.stack([keys % max(count, 1), keys // max(count, 1)])
        return Edges(pairs, count, count, _edges_of_graphs(graph))

    return graph.cached("line_graph", make)


def _edges_of_graphs(graph: Graph) -> tuple[Tensor, Tensor] | None:
    """Return ``segments`` of the line graph: the number of edges of each graph, if packed."""
    if graph.segments is None or not torch.equal(*graph.segments):
        return None
    nodes = graph.segments[0].to(graph.device)
    owner = segment_index(nodes, graph.num_targets)[graph.target]
    if bool((owner.diff() < 0).any()):
        return None
    sizes = owner.bincount(minlength=len(nodes))
    return sizes, sizes
