r"""Output of attention without each of its edges, for all edges of a call in one pass.

Softmax over the remaining sources only rescales their weights. If :math:`o_i = \sum_j w_{ij} v_j`,
the output without the edge from j is

.. math:: o_{i,-j} = \frac{o_i - w_{ij} v_j}{1 - w_{ij}}

The division loses precision as w approaches 1. At most one edge of a target and head has a weight
above ``DOMINANT``, so one more call of attention, in which all such edges are masked, computes the
outputs of these targets and heads again.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from edgewise.attention.attend import AttendOptions, Reduce, aggregate, attend
from edgewise.attention.scores import Dot
from edgewise.attention.steps import attention_weights, edge_scores
from edgewise.engines.call import for_each_query
from edgewise.engines.reference import expand
from edgewise.graphs import Graph, Pattern, incidence
from edgewise.graphs.graph import bind_graph

DOMINANT = 0.9
"""Weight of an edge above which attention is computed again without the edge; at least 0.5."""


def outputs_left_out(
    query: Tensor, key: Tensor, value: Tensor, graph: Pattern, **options: Unpack[AttendOptions]
) -> Tensor:
    """Return the output of the target of each edge without the edge, ``[..., E, H, Dv]``.

    The arguments are those of :func:`edgewise.attend`, without dropout. The output is 0 if no edge
    remains. With α-entmax the remaining weights are only rescaled, so the result is exact only for
    edges with a weight of 0.

    Example:
        >>> import torch
        >>> from edgewise import explain, graphs
        >>> query, key, value = torch.randn(3, 5, 2, 4)  # 5 nodes, 2 heads
        >>> explain.outputs_left_out(query, key, value, graphs.complete()).shape  # 25 edges
        torch.Size([25, 2, 4])
    """
    graph = bind_graph(graph, query.shape[-3], key.shape[-3], query.device)
    weights, out, masked = _outputs(query, key, value, graph, options)
    message = for_each_query(query, value).index_select(-3, graph.source)
    edge_value = options.get("edge_value")
    if edge_value is not None:
        message = message + expand(edge_value)
    weight = weights[..., None]
    rest = (1 - weight).masked_fill(weight > DOMINANT, 1.0)  # whose gradient is finite
    exact = (out.index_select(-3, graph.target) - weight * message) / rest
    if masked is None:
        return exact
    masked_of_edge = masked.index_select(-3, graph.target)
    return torch.where(weight > DOMINANT, masked_of_edge, exact)


def effects_left_out(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: Graph,
    gradient: Tensor,
    **options: Unpack[AttendOptions],
) -> Tensor:
    r"""Return :math:`\langle g_i,\; o_{i,-j} - o_i \rangle` for each edge and head, the first-order
    change of a score with gradient g, without a tensor ``[E, H, Dv]``.
    """
    weights, out, masked = _outputs(query, key, value, graph, options)
    along = _along(gradient, value, graph, options)
    at_target = _at_target(gradient, out, graph)
    change = weights / (1 - weights) * (at_target - along)
    if masked is None:
        return change
    return torch.where(weights > DOMINANT, _at_target(gradient, masked, graph) - at_target, change)


def gradients_of_gains(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: Graph,
    gradient: Tensor,
    **options: Unpack[AttendOptions],
) -> Tensor:
    """Compute the gradient of a score of the model with respect to a gain of 1 of each edge."""
    along = _along(gradient, value, graph, options)
    terms = _without(options, "edge_value", "dropout", "bias", "normaliser")
    score = edge_scores(query, key, graph, **terms).detach()
    with torch.enable_grad():
        factor = torch.ones_like(score, requires_grad=True)
        scores, bias = score * factor, options.get("bias")
        if bias is not None:
            scores = scores + expand(bias).detach()
        normaliser = options.get("normaliser", "softmax")
        weights = attention_weights(
            query, key, graph, score=None, bias=scores, normaliser=normaliser
        )
        return torch.autograd.grad(weights.expand_as(along), factor, along)[0]


def gradients_of_attended(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: Graph,
    gradient: Tensor,
    **options: Unpack[AttendOptions],
) -> Tensor:
    """Compute the gradient with respect to a factor 1 of each message, weight times value."""
    weights = attention_weights(query, key, graph, **_without(options, "edge_value", "dropout"))
    return weights * _along(gradient, value, graph, options)


def gradients_of_messages(
    value: Tensor, weight: Tensor | None, graph: Graph, reduce: Reduce, gradient: Tensor
) -> Tensor:
    """Compute the gradient of a score of the model with respect to a factor 1 of each edge's
    message in :func:`edgewise.aggregate`, ``[..., E, H]``.
    """
    with torch.enable_grad():
        factor = value.new_ones(*value.shape[:-3], graph.num_edges, value.shape[-2])
        factor.requires_grad_()
        weights = factor if weight is None else factor * weight.detach()
        out = aggregate(value.detach(), graph, weight=weights, reduce=reduce)
    return torch.autograd.grad(out, factor, gradient)[0]


def effects_of_aggregation(
    value: Tensor, weight: Tensor | None, graph: Graph, reduce: Reduce, gradient: Tensor
) -> Tensor:
    """Compute the change of a score if each edge of :func:`edgewise.aggregate` is left out."""
    if reduce in ("max", "min"):
        return _effects_of_extremes(value, weight, graph, reduce, gradient)
    along = _along(gradient, value, graph, {})
    if weight is not None:
        along = along * weight
    if reduce == "sum":
        return -along
    out = aggregate(value, graph, weight=weight, reduce=reduce)
    at_target = _at_target(gradient, out, graph)
    degree = graph.in_degree()[graph.target][:, None].to(along)
    return torch.where(degree > 1, (at_target - along) / (degree - 1).clamp(min=1), -at_target)


def _effects_of_extremes(
    value: Tensor, weight: Tensor | None, graph: Graph, reduce: Reduce, gradient: Tensor
) -> Tensor:
    """Compute :func:`effects_of_aggregation` for a maximum or minimum that no other edge equals."""
    message = value.index_select(-3, graph.source)
    if weight is not None:
        message = message * weight[..., None]
    edges_to_targets = incidence(graph)
    out = aggregate(message, edges_to_targets, reduce=reduce)
    extreme = message == out.index_select(-3, graph.target)
    ties = aggregate(extreme.to(message), edges_to_targets).index_select(-3, graph.target)
    worst = -torch.inf if reduce == "max" else torch.inf
    others = aggregate(message.masked_fill(extreme, worst), edges_to_targets, reduce=reduce)
    others = others.masked_fill(others.isinf(), 0.0)  # The target has no other edge.
    change = (gradient * (others - out)).index_select(-3, graph.target)
    return change.masked_fill(~extreme | (ties > 1), 0.0).sum(-1)


def _outputs(
    query: Tensor, key: Tensor, value: Tensor, graph: Graph, options: AttendOptions
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the weights, the output, and the output without edges of large weight, if any."""
    options = _without(options, "dropout")
    weights = attention_weights(query, key, graph, **_without(options, "edge_value"))
    out = attend(query, key, value, graph, layout="NHD", **options)
    dominant = weights > DOMINANT
    if not bool(dominant.any()):
        return weights, out, None
    bias = torch.zeros_like(weights)
    call_bias = options.get("bias")
    if call_bias is not None:
        bias = bias + expand(call_bias)
    masking: AttendOptions = {**options, "bias": bias.masked_fill(dominant, -torch.inf)}
    return weights, out, attend(query, key, value, graph, layout="NHD", **masking)


def _at_target(gradient: Tensor, out: Tensor, graph: Graph) -> Tensor:
    """Return the inner product of gradient and output at the target of each edge."""
    return (gradient * out).sum(-1).index_select(-2, graph.target)


def _along(gradient: Tensor, value: Tensor, graph: Graph, options: AttendOptions) -> Tensor:
    """Return the inner product of gradient and message, with its edge value, for each edge."""
    value = for_each_query(gradient, value)
    terms: AttendOptions = {"score": Dot(scale=1.0)}
    edge_value = options.get("edge_value")
    if edge_value is not None:
        terms["edge_key"] = edge_value
    return edge_scores(gradient, value, graph, **terms)


def _without(options: AttendOptions, *names: str) -> AttendOptions:
    rest = {name: value for name, value in options.items() if name not in names}
    return rest  # type: ignore[return-value]
