"""Many small graphs packed on one node axis; batches are sliced without a loop over graphs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from edgewise._utils.arguments import check_features
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import ranges, segment_index, starts
from edgewise.graphs import Edges, Graph, Intervals


@dataclass(frozen=True)
class PackedGraphs:
    """Packed batch of G graphs with N nodes and E edges in total.

    Attributes:
        x: node features ``[N, F]``.
        edge_index: edges ``[2, E]``; nodes are counted from 0 in each graph.
        edges: edge features ``[E, K]``.
        node_start, edge_start: ``[G + 1]``, where the nodes (edges) of each graph start and end in
            ``x`` (``edge_index``).
        shared: whether a graph that a batch contains several times, such as an ionic liquid at
            several pressures, is packed once. If false, it is packed once for each output.

    Example:
        >>> import torch
        >>> from edgewise.app.train import PackedGraphs
        >>> x, path, bonds = torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]), torch.randn(2, 1)
        >>> packed = PackedGraphs.of([x, x], [path, path], [bonds, bonds])  # two graphs
        >>> packed.sizes
        tensor([3, 3])
    """

    x: Tensor
    edge_index: Tensor
    edges: Tensor
    node_start: Tensor
    edge_start: Tensor
    shared: bool = True

    @classmethod
    def of(cls, x: list[Tensor], edge_index: list[Tensor], edge_attr: list[Tensor]) -> PackedGraphs:
        """Pack graphs, each with its tensors at the same position of the three lists.

        Raises:
            ArgumentError: the lists are empty, or a feature is NaN or infinite.
        """
        if not x:
            raise ArgumentError(
                "graphs",
                expected="at least one graph",
                got="none",
                remedy="give at least one graph",
            )
        nodes, edges = torch.cat(x), torch.cat(edge_attr)
        check_features(nodes)
        check_features(edges)
        node_start, edge_start = (
            torch.tensor([0, *accumulate(len(features) for features in graphs)])
            for graphs in (x, edge_attr)
        )
        return cls(nodes, torch.cat(edge_index, dim=1), edges, node_start, edge_start)

    def __len__(self) -> int:
        return len(self.node_start) - 1

    @property
    def sizes(self) -> Tensor:
        """Number of nodes of each graph, ``[G]``."""
        return self.node_start.diff()

    def take(self, which: Tensor) -> tuple[Tensor, Graph, Graph, Tensor]:
        """Return a batch of graphs.

        Args:
            which: indices of graphs, ``[B]``. ``shared`` determines how repeated graphs are packed.

        Returns:
            Node features ``[n, F]``; the graph of all edges, without edges between graphs; the
            bipartite graph in which output b attends to the nodes of graph ``which[b]``; and the
            edge features ``[e, K]``.
        """
        distinct, inverse = which, torch.arange(len(which), device=which.device)
        if self.shared:
            distinct, inverse = which.unique(return_inverse=True)
        size = self.sizes[distinct]
        start = starts(size)
        members = Intervals(start[inverse], (start + size)[inverse], int(size.sum()))
        degree = self.edge_start.diff()[distinct]
        edge = ranges(self.edge_start[distinct], degree)
        index = self.edge_index[:, edge] + start[segment_index(degree, len(edge))]
        graph = Edges(index, members.num_sources, members.num_sources, (size, size))
        return self.x[ranges(self.node_start[distinct], size)], graph, members, self.edges[edge]
