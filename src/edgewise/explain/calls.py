"""Recorder of the attention and aggregation calls of a forward pass, for attributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from edgewise.attention.hooks import Interceptor, Nodes, nodes_of
from edgewise.attention.steps import attention_weights
from edgewise.engines.call import AttentionCall
from edgewise.explain.edges_left_out import (
    effects_left_out,
    effects_of_aggregation,
    gradients_of_attended,
    gradients_of_gains,
    gradients_of_messages,
)
from edgewise.graphs import Graph
from edgewise.graphs.graph import select_edges

COMPUTE = {"gradient": gradients_of_gains, "left_out": effects_left_out}
"""Functions that compute the contributions of attended edges; else those of their messages."""


@dataclass(eq=False)
class Step:
    """A recorded call of :func:`edgewise.attend` (``call``) or :func:`edgewise.aggregate`.

    Attributes:
        layer: number of the layer; several calls may compute one layer of attention.
        fraction: fraction ``[..., N_dst, H]`` of the call in the output of
            :func:`edgewise.merge_attention`, if any.
    """

    graph: Graph
    nodes: Nodes
    out: Tensor
    call: AttentionCall | None = None
    lse: Tensor | None = None
    value: Tensor | None = None
    weight: Tensor | None = None
    reduce: Any = "sum"
    layer: int = 0
    fraction: Tensor | None = None

    @property
    def edges(self) -> tuple[Tensor, Tensor]:
        """Source and target tokens ``[E]`` of the edges."""
        return self.nodes.edges(self.graph.edge_index)

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

    def weights_in_layer(self) -> Tensor:
        """Return the weights ``[..., E, H]`` in the output of the layer, detached."""
        weights, target = self.weights(), self.graph.target
        if self.fraction is not None:
            weights = weights * self.fraction.index_select(-2, target)
        if self.nodes.unused is not None:
            weights = weights.masked_fill(self.nodes.unused[target][:, None], 0.0)
        return weights

    def contributions(self, method: str, gradients: Sequence[Tensor | None]) -> Tensor:
        """Return the contribution of each edge ``[..., E, H]`` from the gradients of the score."""
        if method == "attention":
            return self.weights_in_layer()
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
        return replace(self, call=call, weight=weight, graph=select_edges(self.graph, edges))


class Tape(Interceptor):
    """Interceptor that records all attention and aggregation calls of a forward pass."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def _add(self, step: Step) -> None:
        step.layer = len(self.steps)
        unused = self.steps[-1].nodes.unused if self.steps else None
        if unused is not None and bool(unused.any()):
            step.layer = self.steps[-1].layer  # The call computes the outputs not used before.
        self.steps.append(step)

    def attend(self, call: Any, graph: Any, compute: Callable[..., Tensor]) -> Tensor:
        out = compute(call, graph)
        self._add(Step(graph, nodes_of(graph), out, call.ungrouped()))
        return out

    def attend_with_lse(
        self, call: Any, graph: Any, compute: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        out, lse = compute(call, graph)
        self._add(Step(graph, nodes_of(graph), out, call.ungrouped(), lse))
        return out, lse

    def merge_attention(
        self, outputs: Any, compute: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        merged, total = compute(outputs)
        step_of = {id(step.out): step for step in self.steps}
        steps = [step_of[id(out)] for out, _ in outputs if id(out) in step_of]
        if len(steps) == len(outputs):
            with torch.no_grad():
                fractions = merged_fractions(
                    [step.nodes for step in steps], [lse for _, lse in outputs], total
                )
            for step, fraction in zip(steps, fractions, strict=True):
                step.fraction, step.layer = fraction, steps[0].layer
        return merged, total

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
        self._add(Step(graph, nodes_of(graph), out, value=value, weight=weight, reduce=reduce))
        return out


def merged_fractions(
    nodes: Sequence[Nodes | None], lses: Sequence[Tensor], total: Tensor
) -> list[Tensor]:
    """Return the fraction of each call in merged attention, by its targets and heads.

    ``total`` is the log-sum-exp of all calls for the targets of the first call.
    """
    first, fractions = nodes[0], []
    total = total.masked_fill(total == -torch.inf, 0.0)
    for call_nodes, lse in zip(nodes, lses, strict=True):
        of_targets = total
        if first and call_nodes and call_nodes is not first and first.head is not None:
            row = torch.zeros(first.heads, first.sizes[0], dtype=torch.long, device=total.device)
            row[first.head, first.target] = torch.arange(total.shape[-2], device=total.device)
            of_targets = total.index_select(-2, row[call_nodes.head, call_nodes.target])
        fractions.append((lse - of_targets).exp())
    return fractions


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
