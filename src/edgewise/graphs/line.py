"""Line graph: the edges of a graph as nodes."""

from __future__ import annotations

import torch

from edgewise._utils.ragged import runs_and_positions, starts
from edgewise.graphs.convert import check_square
from edgewise.graphs.graph import Edges, Graph


def line_graph(graph: Graph) -> Edges:
    """Return the graph whose nodes are the E edges of ``graph``, joined if they share an end.

    Directions do not count: an edge and its reverse are joined, and so are two edges to the same
    node. No edge is joined to itself. A node of degree d joins at most d² pairs.

    Raises:
        ArgumentError: the sources and targets of ``graph`` are not the same nodes.

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
        first, position = runs_and_positions(degree[node])  # Each end meets all ends at its node.
        second = starts(degree)[node][first] + position
        source, target = edge[first], edge[second]
        # Two edges with both ends in common meet twice.
        keys = (target * count + source)[source != target].unique()
        pairs = torch.stack([keys % max(count, 1), keys // max(count, 1)])
        return Edges(pairs, count, count)

    return graph.cached("line_graph", make)
