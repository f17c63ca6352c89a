"""From nodes to one vector a graph: pooling is aggregation over the graph of membership."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from edgewise.attention import Reduce, aggregate
from edgewise.errors import unknown_name
from edgewise.graphs import Graph, Intervals, complete, membership
from edgewise.graphs.batch import Sizes

Pooling = Literal["mean", "sum", "max", "class"]
REDUCTIONS: dict[str, Reduce] = {"mean": "mean", "sum": "sum", "max": "max", "class": "sum"}


def members_of(x: Tensor, sizes: Sizes | Graph | None) -> Graph:
    """Which output reads which of the nodes ``[..., N, width]``; see :class:`Pool`."""
    if isinstance(sizes, Graph):
        return sizes
    return complete().bind(1, x.shape[-2]) if sizes is None else membership(sizes)


class Pool(nn.Module):
    """Mean, sum or maximum over the nodes, or the class token, which is the first of them.

    Args:
        how: ``"mean"``, ``"sum"``, ``"max"`` or ``"class"``.
    """

    def __init__(self, how: Pooling = "mean") -> None:
        super().__init__()
        if how not in REDUCTIONS:
            raise unknown_name("how", how, REDUCTIONS)
        self.how = how

    def forward(self, x: Tensor, sizes: Sizes | Graph | None = None) -> Tensor:
        """One vector a graph.

        Args:
            x: ``[..., N, width]``.
            sizes: how many of the N nodes each graph of a packed batch has, or the graph of which
                output reads which nodes; without it the N nodes are one graph.

        Returns:
            ``[..., width]``, or ``[..., graphs, width]`` with sizes; zero for a graph of no nodes.
        """
        graph = members_of(x, sizes)
        if self.how == "class":
            graph = _first_of_each(graph)
        pooled = aggregate(x.unsqueeze(-2), graph, reduce=REDUCTIONS[self.how]).squeeze(-2)
        return pooled.squeeze(-2) if sizes is None else pooled


def _first_of_each(graph: Graph) -> Graph:
    """The same graph with only the first source of each target."""
    assert isinstance(graph, Intervals)
    return Intervals(graph.start, torch.minimum(graph.start + 1, graph.stop), graph.num_sources)


class ClassToken(nn.Module):
    """A learned node in front of the others, ``[..., N + 1, width]``, to be pooled from."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.empty(width))
        nn.init.normal_(self.token, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        token = self.token.expand(*x.shape[:-2], 1, -1)
        return torch.cat([token, x], dim=-2)
