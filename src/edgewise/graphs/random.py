"""Random neighbours: the graph that keeps every pair close (BigBird, Zaheer et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise.arguments import check_count
from edgewise.graphs.edges import Edges
from edgewise.graphs.graph import Graph, Pattern


@dataclass(frozen=True, repr=False)
class Random(Pattern):
    """Each target reads ``degree`` different sources, or all where there are fewer.

    The same seed and sizes give the same graph, on every machine.
    """

    degree: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("degree", self.degree, 0, "pass how many sources each target reads")
        check_count("seed", self.seed, 0, "pass any number; another seed is another graph")

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        degree = min(self.degree, num_sources)
        generator = torch.Generator().manual_seed(self.seed)
        source = _distinct(num_targets, num_sources, degree, generator)
        target = torch.arange(num_targets).repeat_interleave(degree)
        return Edges(
            torch.stack([source.sort(dim=1).values.flatten(), target]), num_targets, num_sources
        )


def _distinct(rows: int, below: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """``[rows, count]`` integers below ``below``, different within a row, in O(rows · count²).

    Floyd's sampling: the k-th draw is below ``below - count + k + 1``, and where it was drawn
    before, the newest number, which cannot have been, takes its place.
    """
    chosen = torch.empty(rows, count, dtype=torch.long)
    for k in range(count):
        newest = below - count + k
        draw = torch.randint(newest + 1, (rows,), generator=generator)
        taken = (chosen[:, :k] == draw[:, None]).any(dim=1)
        chosen[:, k] = torch.where(taken, newest, draw)
    return chosen
