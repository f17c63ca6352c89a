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
        return self.cached("in_degree", lambda: _permuted_degree(self))

    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        source_inverse, target_inverse = self.derived(_inverse_permutations)
        return self.graph.contains(source_inverse[source], target_inverse[target])

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


def _permuted_degree(graph: Permuted) -> Tensor:
    degree = graph.graph.in_degree()
    return torch.empty_like(degree).index_copy_(0, graph.target_perm, degree)


def _renumbered(graph: Graph) -> Tensor:
    assert isinstance(graph, Permuted)
    source, target = graph.graph.edge_index
    return torch.stack([graph.source_perm[source], graph.target_perm[target]])


def _inverse_permutations(graph: Graph) -> tuple[Tensor, Tensor]:
    assert isinstance(graph, Permuted)
    return graph.source_perm.argsort(), graph.target_perm.argsort()
