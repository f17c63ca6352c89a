"""Random patterns: random attention (BigBird, Zaheer et al., 2020) and expanders (Exphormer)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.arguments import check_even, check_range
from edgewise._utils.limits import LIMITS
from edgewise.graphs.graph import Edges, Graph, Pattern


def _check_degree_and_seed(degree: int, seed: int) -> None:
    remedy = "pass the number of sources of each target"
    check_range("degree", degree, remedy, least=0, integer=True)
    check_range("seed", seed, "pass any non-negative integer", least=0, integer=True)


@dataclass(frozen=True, repr=False)
class Random(Pattern):
    """Random attention: each target attends to ``degree`` distinct random sources.

    If there are at most ``degree`` sources, it attends to all of them. The same seed and numbers of
    nodes give the same graph on every machine.

    Example:
        >>> from edgewise import graphs
        >>> graphs.random(3, seed=1).bind(1000)
        <random(3, seed=1): 1000 nodes, 3000 edges>
    """

    degree: int
    seed: int = 0

    def __post_init__(self) -> None:
        _check_degree_and_seed(self.degree, self.seed)

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        degree = min(self.degree, num_sources)
        generator = torch.Generator().manual_seed(self.seed)

        def sample(below: int) -> Tensor:
            return torch.randint(below, (num_targets,), generator=generator)

        source = distinct_numbers(num_targets, degree, num_sources, sample)
        target = torch.arange(num_targets).repeat_interleave(degree)
        return Edges(
            torch.stack([source.sort(dim=1).values.flatten(), target]), num_targets, num_sources
        )


@dataclass(frozen=True, repr=False)
class Expander(Pattern):
    """Random expander graph: the union of ``degree / 2`` random cycles through all nodes.

    With high probability the graph is a nearly optimal expander (Friedman, 2008): a path of about
    log n / log(degree - 1) edges joins any two of the n nodes. Duplicate edges are removed. The
    same seed and number of nodes give the same graph on every machine.

    Example:
        >>> from edgewise import graphs
        >>> graphs.expander(4, seed=1).bind(1000)
        <expander(4, seed=1): 1000 nodes, 3996 edges>
    """

    degree: int
    seed: int = 0

    def __post_init__(self) -> None:
        _check_degree_and_seed(self.degree, self.seed)
        LIMITS["graph_degree"].check(self.degree, "degree")
        check_even("degree", self.degree, "each cycle adds two neighbours")

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        if num_targets != num_sources:
            self._refuse("as many targets as sources", num_targets, num_sources)
        generator = torch.Generator().manual_seed(self.seed)
        rings = []
        for _ in range(self.degree // 2):
            order = torch.randperm(num_targets, generator=generator)
            rings.append(torch.stack([order, order.roll(1)]))
        forward = torch.cat(rings, dim=1) if rings else torch.empty(2, 0, dtype=torch.long)
        # If there is only one node, the cycle is a self-loop, which is removed.
        forward = forward[:, forward[0] != forward[1]]
        target, source = torch.cat([forward, forward.flip(0)], dim=1)
        return Edges(torch.stack([source, target]), num_targets, num_sources).unique()


def distinct_numbers(
    rows: int, count: int, below: int | Tensor, sample: Callable[[Any], Tensor]
) -> Tensor:
    """Return integers below ``below`` by ``sample(n)``, distinct per row, ``[rows, count]``."""
    # Floyd's algorithm (Bentley and Floyd, 1987) for all rows at once; its memory does not depend
    # on ``below``.
    chosen = torch.empty(rows, count, dtype=torch.long)
    for k in range(count):
        largest = below - count + k
        number = sample(largest + 1)
        # A row that already has the number takes the largest, which it cannot have yet.
        taken = (chosen[:, :k] == number[:, None]).any(dim=1)
        chosen[:, k] = torch.where(taken, largest, number)
    return chosen
