"""Pooling that learns whom to listen to."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.attention import attend
from edgewise.errors import ArgumentError
from edgewise.graphs import complete, membership
from edgewise.graphs.batch import Sizes
from edgewise.scores import Dot


class AttentionPool(nn.Module):
    r"""One vector a graph, :math:`\sum_i \mathrm{softmax}_i(g \cdot x_i)\, V x_i`, in H heads.

    The gate g is a learned query in the space of the features, the same for every graph
    (Li et al., Gated graph sequence neural networks, 2016; Set Transformer, Lee et al., 2019).

    Args:
        width: of the features and of the output.
        heads: H, a divisor of ``width``; each has a gate of its own.
    """

    def __init__(self, width: int, heads: int = 1) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ArgumentError(
                "heads",
                expected=f"a divisor of the width {width}",
                got=repr(heads),
                remedy="change heads or width",
            )
        self.heads = heads
        self.gate = nn.Linear(width, heads, bias=False)
        self.value = nn.Linear(width, width)

    def forward(self, x: Tensor, sizes: Sizes | None = None) -> Tensor:
        """``[..., width]``, or ``[..., graphs, width]`` with sizes, as :class:`Pool` does.

        Args:
            x: ``[..., N, width]``.
            sizes: how many of the N nodes each graph of a packed batch has; without it the N
                nodes are one graph.

        """
        graph = complete().bind(1, x.shape[-2]) if sizes is None else membership(sizes)
        key, value = self.gate(x).unsqueeze(-1), self.value(x).unflatten(-1, (self.heads, -1))
        query = torch.ones_like(key[..., :1, :, :]).expand(
            *key.shape[:-3], graph.num_targets, -1, -1
        )
        pooled = attend(query, key, value, graph, score=Dot(scale=1.0)).flatten(-2)
        return pooled.squeeze(-2) if sizes is None else pooled
