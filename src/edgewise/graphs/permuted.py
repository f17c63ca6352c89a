"""Graphs whose nodes are renumbered by a permutation, such as attention over sorted tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise._utils.arguments import describe
from edgewise._utils.dispatch_modes import detach_from_inference
from edgewise._utils.errors import ArgumentError
from edgewise.graphs.convert import check_sized
from edgewise.graphs.graph import Graph


class Permuted(Graph):
    """Graph whose nodes are renumbered by a permutation.

    An edge from j to i of ``graph`` becomes an edge from ``source_perm[j]`` to ``target_perm[i]``;
    the order of the edges stays the same. If ``graph`` is made of intervals, attention still runs
    on these intervals, so you need not sort features and no edges are listed.

    Args:
        graph: graph before renumbering.
        target_perm, source_perm: new number of each node, int64. These must be permutations, which
            is not checked.

    Raises:
        ArgumentError: ``graph`` is a pattern without sizes, or a permutation has another length
            than the number of nodes.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> perm = torch.tensor([2, 0, 1])  # node 0 becomes node 2
        >>> graphs.Permuted(graphs.causal().bind(3), perm, perm).dense().long()
        tensor([[1, 0, 1],
                [1, 1, 1],
                [0, 0, 1]])
    """

    def __init__(self, graph: Graph, target_perm: Tensor, source_perm: Tensor) -> None:
        check_sized(graph)
        _check_nodes("target_perm", target_perm, graph.num_targets)
        _check_nodes("source_perm", source_perm, graph.num_sources)
        super().__init__(graph.num_targets, graph.num_sources, graph.device)
        self.graph = graph
        self.target_perm, self.source_perm = (
            detach_from_inference(target_perm),
            detach_from_inference(source_perm),
        )

    @property
    def num_edges(self) -> int:
        return self.graph.num_edges

    @property
    def edge_index(self) -> Tensor:
        return self.derived(_renumbered)

    @property
    def has_duplicates(self) -> bool:
        return self.graph.has_duplicates

    def in_degree(self) -> Tensor:
        return self.cached("in_degree", lambda: _at(self.graph.in_degree(), self.target_perm))

    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        source_place, target_place = self.derived(_places)
        return self.graph.contains(source_place[source], target_place[target])

    def _moved(self, device: torch.device) -> Graph:
        return Permuted(
            self.graph.to(device), self.target_perm.to(device), self.source_perm.to(device)
        )


def _check_nodes(argument: str, node: Tensor, count: int) -> None:
    if node.shape != (count,) or node.dtype != torch.long:
        raise ArgumentError(
            argument,
            expected=f"a permutation as a torch.int64 tensor of shape [{count}]",
            got=describe(node),
            remedy=f"pass the new number of each node, such as torch.randperm({count})",
        )


def _at(values: Tensor, node: Tensor) -> Tensor:
    """Return a tensor with ``values[i]`` at index ``node[i]``; ``node`` is a permutation."""
    return torch.empty_like(values).index_copy_(0, node, values)


def _renumbered(graph: Graph) -> Tensor:
    assert isinstance(graph, Permuted)
    source, target = graph.graph.edge_index
    return torch.stack([graph.source_perm[source], graph.target_perm[target]])


def _places(graph: Graph) -> tuple[Tensor, Tensor]:
    """Return the inverse permutations: the old number of each new source and of each new target."""
    assert isinstance(graph, Permuted)
    place = [torch.arange(len(x), device=x.device) for x in (graph.source_perm, graph.target_perm)]
    return _at(place[0], graph.source_perm), _at(place[1], graph.target_perm)
