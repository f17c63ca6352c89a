"""Symmetric degree normalisation of edges, as in GCN."""

from __future__ import annotations

from torch import Tensor

from edgewise.attention.attend import aggregate
from edgewise.graphs import Graph, check_sized


def symmetric_weight(graph: Graph, weight: Tensor | None = None) -> Tensor:
    r"""Return the weights of :math:`D^{-1/2} A D^{-1/2}`, ``[E]``: :math:`a_{ij} / \sqrt{d_i d_j}`.

    Here :math:`d_i` is the sum of the incoming weights of node i. Edges from a node without
    incoming edges have weight 0.

    Args:
        graph: graph with as many sources as targets.
        weight: differentiable edge weights a, ``[E]``. By default all weights are 1, and the result
            is in float64 and stored with the graph.

    Example:
        >>> from edgewise import graphs, layers
        >>> layers.symmetric_weight(graphs.grid(1, 3).bind(3))
        tensor([0.7071, 0.7071, 0.7071, 0.7071], dtype=torch.float64)
    """
    check_sized(graph)
    if weight is None:
        return graph.derived(_of_degrees)
    degree = aggregate(weight.new_ones(graph.num_sources, 1), graph, weight=weight)[:, 0]
    scale = _inverse_root(degree)
    return scale[graph.source] * weight * scale[graph.target]


def _of_degrees(graph: Graph) -> Tensor:
    scale = _inverse_root(graph.in_degree().double())
    return scale[graph.source] * scale[graph.target]


def _inverse_root(degree: Tensor) -> Tensor:
    is_zero = degree == 0
    return degree.masked_fill(is_zero, 1).rsqrt().masked_fill(is_zero, 0)
