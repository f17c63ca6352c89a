"""Recorder of the attention and aggregation calls of a forward pass, for attributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from edgewise.attention.hooks import Interceptor
from edgewise.attention.steps import attention_weights
from edgewise.engines.call import AttentionCall
from edgewise.explain.edges_left_out import (
    effects_left_out,
    effects_of_aggregation,
    gradients_of_attended,
    gradients_of_gains,
    gradients_of_messages,
)
from edgewise.graphs import Edges, Graph

COMPUTE = {"gradient": gradients_of_gains, "left_out": effects_left_out}
"""Functions that compute the contributions of attended edges; else those of their messages."""


@dataclass(eq=False)
class Step:
    """A recorded call of :func:`edgewise.attend` (``call``) or :func:`edgewise.aggregate`."""

    graph: Graph
    out: Tensor
    call: AttentionCall | None = None
    lse: Tensor | None = None
    value: Tensor | None = None
    weight: Tensor | None = None
    reduce: Any = "sum"

    def weights(self) -> Tensor:
        """Return the weights ``[..., E, H]``; those of aggregation as absolute fractions."""
        if self.call is not None:
            terms = terms_of(self.call)
            terms.pop("edge_value")
            return attention_weights(self.call.query, self.call.key, self.graph, **terms)
        assert self.value is not None
        ones = self.value.new_ones(self.graph.num_edges, 1)
        weight = ones if self.weight is None else self.weight.abs()
        shape = (*weight.shape[:-2], self.graph.num_targets, weight.shape[-1])
        total = weight.new_zeros(shape).index_add(-2, self.graph.target, weight)
        return weight / total.clamp(min=1e-30).index_select(-2, self.graph.target)

    def contributions(self, method: str, gradients: Sequence[Tensor | None]) -> Tensor:
        """Return the contribution of each edge ``[..., E, H]`` from the gradients of the score."""
        if method == "attention":
            return self.weights()
        gradient, lse_gradient = gradients
        if gradient is None:
            return self.weights() * 0.0
        if self.call is None:
            assert self.value is not None
            terms = self.value, self.weight, self.graph, self.reduce, gradient
            if method == "left_out":
                return -effects_of_aggregation(*terms)
            return gradients_of_messages(*terms)
        call = self.call
        compute = COMPUTE.get(method, gradients_of_attended)
        nodes = call.query, call.key, call.value
        effects = compute(*nodes, self.graph, gradient, **terms_of(call))
        if method != "left_out":
            return effects
        if lse_gradient is not None:  # Without the edge, the log-sum-exp changes by log(1 - w).
            lse_change = torch.log1p(-self.weights().clamp(max=1 - 1e-6))
            effects = effects + lse_change * lse_gradient.index_select(-2, self.graph.target)
        return -effects

    def on_edges(self, edges: Tensor) -> Step:
        """Return a copy with only the edges of these indices; the output is unchanged."""
        call = None if self.call is None else self.call.on_edges(edges)
        weight = None if self.weight is None else self.weight.index_select(-2, edges)
        return replace(self, call=call, weight=weight, graph=graph_on_edges(self.graph, edges))


class Tape(Interceptor):
    """Interceptor that records all attention and aggregation calls of a forward pass."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def attend(self, call: Any, graph: Any, compute: Callable[..., Tensor]) -> Tensor:
        out = compute(call, graph)
        self.steps.append(Step(graph, out, call.ungrouped()))
        return out

    def attend_with_lse(
        self, call: Any, graph: Any, compute: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        out, lse = compute(call, graph)
        self.steps.append(Step(graph, out, call.ungrouped(), lse))
        return out, lse

    def aggregate(
        self,
        value: Tensor,
        weight: Tensor | None,
        graph: Any,
        reduce: str,
        compute: Callable[..., Tensor],
    ) -> Tensor:
        out = compute(value, weight, graph, reduce)
        is_between_nodes = graph.num_sources == graph.num_targets and not is_degree(value, weight)
        if torch.is_grad_enabled() and is_between_nodes and not out.requires_grad:
            out = out.detach().requires_grad_()  # Raw features need no gradient; their sums do.
        self.steps.append(Step(graph, out, value=value, weight=weight, reduce=reduce))
        return out


def is_degree(value: Tensor, weight: Tensor | None) -> bool:
    """Return whether a call sums edge weights, times ones, instead of messages."""
    return weight is not None and value.shape[-2:].numel() == 1 and not value.requires_grad


def terms_of(call: AttentionCall) -> dict[str, Any]:
    """Return the arguments of a call that are options of :func:`edgewise.attend`."""
    return {
        "score": call.score,
        "bias": call.bias,
        "gain": call.gain,
        "edge_key": call.edge_key,
        "edge_value": call.edge_value,
        "normaliser": call.normaliser or "softmax",
    }


def graph_on_edges(graph: Graph, edges: Tensor) -> Graph:
    """Return a graph with all nodes and only the edges of these indices."""
    return Edges(graph.edge_index[:, edges], graph.num_targets, graph.num_sources)
