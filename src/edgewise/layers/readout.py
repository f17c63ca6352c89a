"""From nodes to one vector a graph, by a question that may depend on the graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.attention import attend
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph


class AttentionReadout(nn.Module):
    r"""Each output attends to the nodes that it reads, in several heads.

    .. math:: z_b = \mathrm{attend}(q + C c_b,\; K h,\; V h,\; \mathrm{members})

    What to look for is learned (Li et al., Gated graph sequence neural networks, 2016), and steered
    by what is known of the whole, such as temperature and pressure.

    Args:
        width: of the nodes' features and of the output.
        heads: a divisor of it.
        condition_width: of c; 0 for none.
    """

    def __init__(self, width: int, heads: int, condition_width: int = 0) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ArgumentError(
                "heads",
                expected=f"a divisor of the width {width}",
                got=repr(heads),
                remedy="change heads or width",
            )
        self.query = nn.Parameter(torch.empty(heads, width // heads))
        nn.init.normal_(self.query)
        self.key, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.condition = nn.Linear(condition_width, width) if condition_width else None

    def forward(self, x: Tensor, members: Graph, condition: Tensor | None = None) -> Tensor:
        """``[B, width]`` from nodes ``[N, width]`` and conditions ``[B, condition_width]``.

        Args:
            x: the nodes of all graphs, packed.
            members: which output reads which nodes, such as ``graphs.membership(sizes)``.
            condition: what is known of each output's graph.

        """
        heads = len(self.query)
        query = self.query.expand(members.num_targets, -1, -1)
        if self.condition is not None and condition is not None:
            query = query + self.condition(condition).unflatten(-1, (heads, -1))
        key, value = (f(x).unflatten(-1, (heads, -1)) for f in (self.key, self.value))
        return attend(query, key, value, members).flatten(-2)
