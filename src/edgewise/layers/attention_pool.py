"""Pooling that learns whom to listen to, by a question that may depend on the graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.attention import attend
from edgewise.graphs import Graph
from edgewise.graphs.batch import Sizes
from edgewise.layers.attention import check_divides
from edgewise.layers.pooling import members_of


class AttentionPool(nn.Module):
    r"""One vector a graph, to which its nodes are attended in several heads.

    .. math:: z_b = \mathrm{attend}(q + C c_b,\; K h,\; V h,\; \mathrm{members})

    What to look for is learned (Li et al., Gated graph sequence neural networks, 2016; Set
    Transformer, Lee et al., 2019), and steered by what is known of the whole, such as temperature
    and pressure.

    Args:
        width: of the nodes' features and of the output.
        heads: a divisor of it.
        condition_width: of c; 0 for none.
    """

    def __init__(self, width: int, heads: int = 1, condition_width: int = 0) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width")
        self.query = nn.Parameter(torch.empty(heads, width // heads))
        nn.init.normal_(self.query)
        self.key, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.condition = nn.Linear(condition_width, width) if condition_width else None

    def forward(
        self, x: Tensor, sizes: Sizes | Graph | None = None, condition: Tensor | None = None
    ) -> Tensor:
        """``[..., width]``, or ``[..., graphs, width]`` with sizes; zero for a graph of no nodes.

        Args:
            x: ``[..., N, width]``.
            sizes: as :class:`Pool` takes them.
            condition: ``[..., graphs, condition_width]``, what is known of each graph.

        """
        members, heads = members_of(x, sizes), len(self.query)
        query = self.query.expand(*x.shape[:-2], members.num_targets, -1, -1)
        if self.condition is not None and condition is not None:
            query = query + self.condition(condition).unflatten(-1, (heads, -1))
        key, value = (f(x).unflatten(-1, (heads, -1)) for f in (self.key, self.value))
        pooled = attend(query, key, value, members).flatten(-2)
        return pooled.squeeze(-2) if sizes is None else pooled
