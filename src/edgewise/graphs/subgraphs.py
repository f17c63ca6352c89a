"""Patterns with one extra token for each subgraph, such as a ring of a molecule."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from edgewise._utils.errors import ArgumentError
from edgewise.graphs.graph import Edges, Graph, Pattern, check_graph, disjoint_union
from edgewise.graphs.virtual import with_isolated_nodes


@dataclass(frozen=True, repr=False)
class Subgraphs(Pattern):
    """Pattern with one token per subgraph in ``members`` in front of the nodes of ``pattern``.

    A subgraph is for example a ring of a molecule or a clause of a sentence. Its token and its
    nodes attend to each other, and the token to itself. Subgraphs may share nodes.

    Example:
        >>> from edgewise import graphs
        >>> graphs.subgraphs(graphs.empty(), [[0, 1], [1, 2]]).bind(5).dense().long()
        tensor([[1, 0, 1, 1, 0],
                [0, 1, 0, 1, 1],
                [1, 0, 0, 0, 0],
                [1, 1, 0, 0, 0],
                [0, 1, 0, 0, 0]])
    """

    pattern: Pattern
    members: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        check_graph(self.pattern, "pattern")
        try:
            members = tuple(
                tuple(sorted({operator.index(node) for node in nodes})) for nodes in self.members
            )
        except TypeError:  # A member is not a list of integers.
            raise _no_members(repr(self.members)) from None
        if any(nodes and nodes[0] < 0 for nodes in members):
            raise _no_members(f"node {min(min(nodes, default=0) for nodes in members)}")
        object.__setattr__(self, "members", members)

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        count = len(self.members)
        least = count + 1 + max((nodes[-1] for nodes in self.members if nodes), default=-1)
        if num_targets != num_sources or num_targets < least:
            self._refuse(
                f"the same number of targets and sources, at least {least}",
                num_targets,
                num_sources,
            )
        inner = self.pattern.bind(num_targets - count)
        token = [number for number, nodes in enumerate(self.members) for _ in nodes]
        node = [count + member for nodes in self.members for member in nodes]
        loops = list(range(count))
        pairs = torch.tensor([loops + token + node, loops + node + token], device=inner.device)
        tokens = Edges(pairs, num_targets, num_sources)
        disjoint = [tokens, *with_isolated_nodes(inner, count)]
        return disjoint_union(disjoint, num_targets, num_sources)


def _no_members(got: str) -> ArgumentError:
    return ArgumentError(
        "members",
        expected="for each subgraph a list of its nodes, which are numbered from 0",
        got=got,
        remedy="write for example subgraphs(pattern, [[0, 1], [1, 2]])",
    )
