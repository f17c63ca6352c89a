"""Message passing, the basic layer of graph neural networks, and the edge weights of GCN."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise.attention.attend import Reduce, aggregate
from edgewise.distributed.partitions import Partition
from edgewise.graphs import Graph, Pattern, check_sized
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers.sequential import GraphLayer
from edgewise.layers.sparse import Linear


class MessagePassing(GraphLayer):
    r"""One round of message passing, :math:`h_i' = U h_i + b + \bigoplus_{j \in N(i)} V h_j`.

    The reduction ⊕ is ``"sum"``, ``"mean"``, ``"max"`` or ``"min"``. There is no non-linearity.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> layer = layers.MessagePassing(16, 32, reduce="mean")
        >>> layer(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 32])
    """

    reach = 1

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


def symmetric_weight(graph: Graph, weight: Tensor | None = None) -> Tensor:
    r"""Return the weights of :math:`D^{-1/2} A D^{-1/2}`, ``[E]``: :math:`a_{ij} / \sqrt{d_i d_j}`.

    Here :math:`d_i` is the sum of the incoming weights of node i; edges from a node without
    incoming edges have weight 0. ``weight`` holds the edge weights a, ``[E]``. By default all are
    1, and the result is in float64 and stored with the graph. The degrees of a sampled graph are
    then those in the whole graph, and the weights of k sampled of m edges of a node, without
    self-loops, are multiplied by m / k: for nodes without self-loops in the whole graph, the sum
    over the edges has the expectation of the sum in the whole graph. A self-loop can take the place
    of a sampled edge, and may not be sampled.

    Example:
        >>> from edgewise import graphs, layers
        >>> layers.symmetric_weight(graphs.grid(1, 3).bind(3))
        tensor([0.7071, 0.7071, 0.7071, 0.7071], dtype=torch.float64)
    """
    if not isinstance(graph, Partition):
        check_sized(graph)
    if weight is None:
        return graph.derived(_of_degrees)
    degree = aggregate(weight.new_ones(graph.num_sources, 1), graph, weight=weight)[:, 0]
    return _of_ends(graph, degree) * weight


def _of_degrees(graph: Graph) -> Tensor:
    if isinstance(graph, Partition) or graph.whole is None:
        return _of_ends(graph, graph.in_degree().double())
    degree, target = graph.whole.degree.double(), graph.target
    is_loop = graph.source == target
    sampled = torch.zeros_like(degree).index_add(0, target, (~is_loop).double())
    factor = (degree - graph.whole.loops) / sampled.clamp(min=1)
    return _of_ends(graph, degree) * factor[target].masked_fill(is_loop, 1)


def _of_ends(graph: Graph, degree: Tensor) -> Tensor:
    """Return 1 / sqrt(degree of source * degree of target) of each edge; 0 for a degree of 0."""
    is_zero = degree == 0
    scale = degree.masked_fill(is_zero, 1).rsqrt().masked_fill(is_zero, 0)[:, None]
    return (graph.gather_source(scale) * graph.gather_target(scale))[:, 0]
