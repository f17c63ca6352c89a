"""Trees given by the parent of each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError, counted
from edgewise.graphs.graph import Edges, Graph, Pattern

READS = ("parent", "children", "both")


@dataclass(frozen=True, repr=False)
class Tree(Pattern):
    """Tree or forest in which node i has the parent ``parents[i]``, or is a root if this is -1.

    ``reads`` says to which nodes a node attends: its "parent", its "children", or "both".

    Example:
        >>> from edgewise import graphs
        >>> graphs.tree([-1, 0, 0]).bind(3).dense().long()
        tensor([[0, 1, 1],
                [1, 0, 0],
                [1, 0, 0]])
    """

    parents: Sequence[int]
    reads: str = "both"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parents", tuple(int(p) for p in self.parents))
        check_choice("reads", self.reads, READS)
        self._check_parents()

    def _check_parents(self) -> None:
        """Check that every parent exists and that there is no cycle."""
        count = len(self.parents)
        settled: set[int] = set()
        for first in range(count):
            node, path = first, dict[int, None]()  # A dict is an ordered set.
            while node != -1 and node not in settled:
                if not 0 <= node < count or node in path:
                    raise ArgumentError(
                        "parents",
                        expected=f"parents that are nodes from 0 to {count - 1} or -1 (a root), "
                        "without a cycle",
                        got=f"the chain of parents {[*path, node]}",
                        remedy="number the nodes from 0, and make one node of each cycle a root",
                    )
                path[node] = None
                node = self.parents[node]
            settled.update(path)

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        if not num_targets == num_sources == len(self.parents):
            self._refuse(counted(len(self.parents), "node"), num_targets, num_sources)
        parent = torch.tensor(self.parents, dtype=torch.long)
        child = (parent >= 0).nonzero()[:, 0]
        up = torch.stack([parent[child], child])  # Each child attends to its parent.
        chosen = {"parent": [up], "children": [up.flip(0)], "both": [up, up.flip(0)]}[self.reads]
        return Edges(torch.cat(chosen, dim=1), num_targets, num_sources)
