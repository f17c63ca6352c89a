"""Message passing, the basic layer of graph neural networks."""

from __future__ import annotations

from torch import Tensor

from edgewise.attention.attend import Reduce, aggregate
from edgewise.attention.checks import bind_to_nodes
from edgewise.graphs import Pattern
from edgewise.layers.sequential import GraphLayer
from edgewise.layers.sparse import Linear


class MessagePassing(GraphLayer):
    r"""One round of message passing, :math:`h_i' = U h_i + b + \bigoplus_{j \in N(i)} V h_j`.

    The reduction ⊕ is a sum, a mean, or an elementwise maximum or minimum. The layer has no
    non-linearity.

    Args:
        in_width: feature size of h.
        out_width: feature size of h'.
        reduce: reduction ⊕: ``"sum"``, ``"mean"``, ``"max"`` or ``"min"``.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> layer = layers.MessagePassing(16, 32, reduce="mean")
        >>> layer(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 32])
    """

    def __init__(self, in_width: int, out_width: int, *, reduce: Reduce = "sum") -> None:
        super().__init__()
        self.own = Linear(in_width, out_width)
        self.message = Linear(in_width, out_width, bias=False)
        self.reduce: Reduce = reduce

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        """Return features ``[..., N, out_width]`` from x ``[..., N, in_width]``."""
        graph = bind_to_nodes(graph, x)
        messages = aggregate(self.message(x).unsqueeze(-2), graph, reduce=self.reduce).squeeze(-2)
        out: Tensor = self.own(x) + messages
        return out
