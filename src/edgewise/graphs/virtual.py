"""Patterns with virtual nodes, which are connected to all nodes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise._utils.arguments import check_range
from edgewise.graphs.graph import (
    Edges,
    Graph,
    Intervals,
    Pattern,
    Runs,
    check_graph,
    disjoint_union,
)


@dataclass(frozen=True, repr=False)
class Virtual(Pattern):
    """Pattern with ``count`` virtual nodes in front of the nodes of ``pattern``.

    Virtual nodes, such as a class token, and all other nodes attend to each other.

    Example:
        >>> from edgewise import graphs
        >>> graphs.virtual(graphs.empty()).bind(4).dense().long()  # 3 nodes after the virtual node
        tensor([[1, 1, 1, 1],
                [1, 0, 0, 0],
                [1, 0, 0, 0],
                [1, 0, 0, 0]])
    """

    pattern: Pattern
    count: int = 1

    def __post_init__(self) -> None:
        check_graph(self.pattern, "pattern")
        check_range("count", self.count, "pass the number of virtual nodes", least=0, integer=True)

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        if num_targets != num_sources or num_targets < self.count:
            self._refuse(
                f"the same number of targets and sources, at least {self.count}",
                num_targets,
                num_sources,
            )
        inner = self.pattern.bind(num_targets - self.count)
        start = torch.zeros(num_targets, dtype=torch.long, device=inner.device)
        stop = torch.full_like(start, self.count)
        stop[: self.count] = num_sources
        virtual = Intervals(start, stop, num_sources)
        disjoint = [virtual, *with_isolated_nodes(inner, self.count)]
        return disjoint_union(disjoint, num_targets, num_sources)


def with_isolated_nodes(inner: Graph, count: int) -> list[Graph]:
    """Return the graphs ``inner.parts`` with ``count`` isolated nodes added in front."""
    nodes, shifted = inner.num_targets + count, list[Graph]()
    for graph in inner.parts:
        if isinstance(graph, Intervals):
            no_sources = graph.start.new_zeros(count)
            start = torch.cat([no_sources, graph.start + count])
            stop = torch.cat([no_sources, graph.stop + count])
            shifted.append(Intervals(start, stop, nodes, step=graph.step))
        elif isinstance(graph, Runs):
            ends = graph.row + count, graph.start + count, graph.stop + count
            shifted.append(Runs(*ends, nodes, nodes, step=graph.step))
        else:
            shifted.append(Edges(graph.edge_index + count, nodes, nodes))
    return shifted
