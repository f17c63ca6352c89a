"""Random attention pattern (BigBird, Zaheer et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise._utils.arguments import check_count
from edgewise.graphs.graph import Edges, Graph, Pattern
from edgewise.graphs.sampling import distinct_numbers


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
        check_count("degree", self.degree, 0, "pass the number of sources of each target")
        check_count("seed", self.seed, 0, "pass any non-negative integer")

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        degree = min(self.degree, num_sources)
        generator = torch.Generator().manual_seed(self.seed)

        def draw(below: int) -> Tensor:
            return torch.randint(below, (num_targets,), generator=generator)

        source = distinct_numbers(num_targets, degree, num_sources, draw)
        target = torch.arange(num_targets).repeat_interleave(degree)
        return Edges(
            torch.stack([source.sort(dim=1).values.flatten(), target]), num_targets, num_sources
        )
