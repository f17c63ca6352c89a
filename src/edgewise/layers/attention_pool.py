"""Pooling that learns whom to listen to."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.attention import attend
from edgewise.graphs import Graph
from edgewise.graphs.batch import Sizes
from edgewise.layers.attention import check_divides
from edgewise.layers.pooling import members_of


class AttentionPool(nn.Module):
    r"""One vector a graph, which attends to its nodes in several heads.

    .. math:: z_b = \mathrm{attend}(q,\; K h,\; V h,\; \mathrm{members})

    What to look for, q, is learned and the same for every graph (Li et al., Gated graph sequence
    neural networks, 2016; Lee et al., Set Transformer, 2019).

    Args:
        width: of the nodes' features and of the output.
        heads: a divisor of it.
    """

    def __init__(self, width: int, heads: int = 1) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width")
        self.query = nn.Parameter(torch.empty(heads, width // heads))
        nn.init.normal_(self.query)
        self.key, self.value = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, sizes: Sizes | Graph | None = None) -> Tensor:
        """``[..., width]``, or ``[..., graphs, width]`` with sizes; zero for a graph of no nodes.

        Args:
            x: ``[..., N, width]``.
            sizes: as :class:`Pool` takes them.

        """
        members = members_of(x, sizes)
        query = self.query.expand(*x.shape[:-2], members.num_targets, -1, -1)
        key, value = (f(x).unflatten(-1, self.query.shape) for f in (self.key, self.value))
        pooled = attend(query, key, value, members).flatten(-2)
        return pooled.squeeze(-2) if sizes is None else pooled
