"""Symmetric normalisation of the edges by the degrees of both ends, as in GCN."""

from __future__ import annotations

from torch import Tensor

from edgewise.attention import aggregate
from edgewise.graphs import Graph, check_sized


def symmetric_weight(graph: Graph, weight: Tensor | None = None) -> Tensor:
    r"""The edges of :math:`D^{-1/2} A D^{-1/2}`, ``[E]``: :math:`a_{ij} / \sqrt{d_i d_j}`.

    Args:
        graph: with as many targets as sources.
        weight: a, ``[E]``, through which gradients go; 1 for each edge where it is not given, and
            the result, in float64, is then kept on the graph.

    Here :math:`d_i` is the sum of what node i reads; edges from a node that reads nothing are 0.
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
    nothing = degree == 0
    return degree.masked_fill(nothing, 1).rsqrt().masked_fill(nothing, 0)
