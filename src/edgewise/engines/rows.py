"""Arbitrary edges on the CPU: fused kernels over the rows of the graph, in C++."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from edgewise.biases import EdgeTerm, EdgeVector, Projected, TableBias
from edgewise.engines import rows_ops
from edgewise.engines.call import AttentionCall, Problem, accumulator
from edgewise.engines.layouts import RowsLayout
from edgewise.engines.operands import flat, refusals, wants_gradient
from edgewise.engines.rows_aggregate import REDUCES, run_aggregate
from edgewise.engines.rows_edges import rows_scores, rows_softmax
from edgewise.scores import Additive, Dot

# Kernel and slope below zero of each activation: leaky ReLU covers the piecewise linear ones.
ACTIVATIONS = {
    **{"leaky_relu": (0, None), "relu": (0, 0.0), "identity": (0, 1.0)},
    **{"tanh": (1, 0.0), "gelu": (2, 0.0), "silu": (3, 0.0)},
}
NO_TERM = (None, None)
NO_VECTOR = (None, None, None)


class Rows:
    """Scores, softmax and sum of a row of edges in one pass, without an E×H×D tensor.

    Every output belongs to one thread: results are bitwise the same for any number of threads.
    16-bit inputs are accumulated in float32. Gradients are not differentiable again; the
    reference's are.
    """

    name = "rows"
    layout = RowsLayout

    def refuses(self, problem: Problem) -> list[str]:
        """The reasons why this engine cannot serve, none if it can."""
        counts = problem.num_edges, problem.num_targets, problem.num_sources
        reasons = refusals(problem, max(counts))
        if not (problem.score is None or isinstance(problem.score, (Dot, Additive))):
            reasons.append("a score of your own has no kernel; Dot, Additive and None have one")
        return reasons

    def seconds(self, problem: Problem) -> float:
        """A node costs its own vectors, an edge its gathers, by the cache that they are from."""
        nodes = problem.batch * (problem.num_targets + problem.num_sources)
        edges, heads = problem.batch * problem.num_edges, problem.heads
        elements = heads * (problem.width + problem.value_width)
        gather = _gather_seconds(4 * problem.num_sources * elements)
        if problem.operation == "aggregate":
            return 160e-6 + 0.1e-6 * nodes + edges * (6e-9 + 2e-9 * heads + elements * gather / 2)
        terms = problem.bias + problem.gain
        each = 12e-9 + heads * (3e-9 + 4e-9 * terms) + elements * gather
        if isinstance(problem.score, Additive):
            each += 0.5e-9 * heads * problem.width
        return 330e-6 + 0.2e-6 * nodes + edges * each

    def attend(self, call: AttentionCall, layout: RowsLayout) -> Tensor:
        """Output ``[..., N_dst, H, Dv]``."""
        return self.attend_with_lse(call, layout)[0]

    def attend_with_lse(self, call: AttentionCall, layout: RowsLayout) -> tuple[Tensor, Tensor]:
        """Output and log-sum-exp of the scores ``[..., N_dst, H]``, -inf where nothing is read."""
        batch, arguments = _arguments(call, layout)
        out, lse, _ = rows_ops.run_attend(*arguments)
        return out.view(*batch, *out.shape[1:]), lse.view(*batch, *lse.shape[1:])

    def edge_scores(self, call: AttentionCall, layout: RowsLayout) -> Tensor:
        """``[..., E, H]``: score · gain + bias."""
        batch, arguments = _arguments(replace(call, edge_value=None), layout)
        scores: Tensor = rows_scores(*arguments)
        return scores.view(*batch, *scores.shape[1:])

    def edge_softmax(self, scores: Tensor, layout: RowsLayout) -> Tensor:
        """``[..., E, H]``: normalised over the edges that enter the same target."""
        members = scores.reshape(scores.shape[:-2].numel(), *scores.shape[-2:])
        members = members.to(accumulator(scores))
        weights: Tensor = rows_softmax(members, None, list(layout.by_target), layout.num_sources)
        return weights.view(scores.shape).to(scores.dtype)

    def aggregate(
        self, value: Tensor, weight: Tensor | None, reduce: str, layout: RowsLayout
    ) -> Tensor:
        """``[..., N_dst, H, D]``: sum, mean, max or min of weight · value over the edges."""
        batch = value.shape[:-3]
        if weight is not None:
            batch = torch.broadcast_shapes(batch, weight.shape[:-2])
        nodes, shape = flat(value, batch), value.shape[-2:]
        if (
            weight is None or weight.shape[-1] == 1
        ):  # one weight an edge: heads need not be told apart
            nodes = nodes.reshape(*nodes.shape[:2], 1, shape.numel())
        if weight is not None:
            weight = _term(weight, batch, accumulator(value))[0]
        needed = [x for x in (nodes, weight) if x is not None and x.requires_grad]
        by_source = list(layout.by_source) if needed and torch.is_grad_enabled() else []
        sides = (list(layout.by_target), by_source)
        out = run_aggregate(nodes, weight, *sides, REDUCES[reduce])
        return out.view(*batch, out.shape[1], *shape)


def _gather_seconds(size: int) -> float:
    """Seconds an element, forward and backward, from node tensors of this many bytes."""
    return 0.17e-9 if size < 2e6 else 0.5e-9 if size < 1e7 else 1.1e-9


def _arguments(call: AttentionCall, layout: RowsLayout) -> tuple[torch.Size, tuple[object, ...]]:
    """Leading dimensions, and the arguments of the operator in its order."""
    batch = call.batch
    dtype = accumulator(call.value)
    query = key = weight = None
    score, activation, slope, scale = 0, 0, 0.0, 1.0
    if call.score is not None:
        query, key = flat(call.query, batch), flat(call.key, batch)
    if isinstance(call.score, Dot):
        score, scale = 1, call.score.scale_for(call.query.shape[-1])
    elif isinstance(call.score, Additive):
        score = 2
        activation, fixed = ACTIVATIONS[call.score.activation]
        slope = call.score.negative_slope if fixed is None else fixed
        weight = None if call.score.weight is None else call.score.weight.to(dtype)
    bias, bias_index = _term(call.bias, batch, dtype)
    gain, gain_index = _term(call.gain if score else None, batch, dtype)
    edge_key = _vector(call.edge_key if score else None, batch, call.value.dtype, dtype)
    edge_value = _vector(call.edge_value, batch, call.value.dtype, dtype)
    value = flat(call.value, batch)
    tensors = (query, key, value, bias, gain, *edge_key, *edge_value, weight)
    differentiable = wants_gradient(tensors)
    sides = (list(layout.by_target), list(layout.by_source) if differentiable else [])
    numbers = (score, activation, scale, slope, call.dropout, call.seed, call.first_edge)
    return batch, (*tensors, bias_index, gain_index, *sides, *numbers)


def _term(
    term: EdgeTerm | None, batch: torch.Size, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """``[B or 1, E, H or 1]`` and no index, or ``[1, classes, H or 1]`` and the index."""
    if term is None:
        return NO_TERM
    if isinstance(term, TableBias):
        index = term.index
        index = index if index.dtype in (torch.int32, torch.int64) else index.long()
        return term.table.to(dtype)[None], index
    shared = term.shape[:-2].numel() == 1
    term = term.reshape(1, *term.shape[-2:]) if shared else _edges(term, batch, 2)
    return term.to(dtype), None


def _vector(
    vector: EdgeVector | None, batch: torch.Size, storage: torch.dtype, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """``[B or 1, E, H, D]``, or features ``[E, F]`` and their weight."""
    if vector is None:
        return NO_VECTOR
    if isinstance(vector, Projected):
        return None, vector.features.to(dtype), vector.weight.to(dtype)
    shared = vector.shape[:-3].numel() == 1
    vector = vector.reshape(1, *vector.shape[-3:]) if shared else _edges(vector, batch, 3)
    return vector.to(storage), None, None


def _edges(x: Tensor, batch: torch.Size, dims: int) -> Tensor:
    return x.expand(*batch, *x.shape[-dims:]).flatten(0, -dims - 1)
