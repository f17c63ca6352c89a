"""Arbitrary edges on the CPU: fused kernels over the rows of the graph, in C++."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from edgewise.biases import EdgeTerm, EdgeVector, Projected, TableBias
from edgewise.engines.call import AttentionCall, Problem, accumulator
from edgewise.engines.native.operator import flat, refusals, unflat, wants_gradient
from edgewise.engines.rows.aggregate import REDUCES, rows_aggregate
from edgewise.engines.rows.attend import rows_attend, rows_scores
from edgewise.engines.rows.layout import RowsLayout
from edgewise.engines.rows.softmax import rows_softmax
from edgewise.scores import Additive, Dot

# Kernel and slope below zero of each activation: leaky ReLU covers the piecewise linear ones.
ACTIVATIONS = {
    **{"leaky_relu": (0, None), "relu": (0, 0.0), "identity": (0, 1.0)},
    **{"tanh": (1, 0.0), "gelu": (2, 0.0), "silu": (3, 0.0)},
}


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
        return 230e-6 + 0.2e-6 * nodes + edges * each

    def attend(self, call: AttentionCall, layout: RowsLayout) -> Tensor:
        """Output ``[..., N_dst, H, Dv]``."""
        return self.attend_with_lse(call, layout)[0]

    def attend_with_lse(self, call: AttentionCall, layout: RowsLayout) -> tuple[Tensor, Tensor]:
        """Output and log-sum-exp of the scores ``[..., N_dst, H]``, -inf where nothing is read."""
        out, lse, _ = rows_attend(_given(_widened(call), layout))
        return unflat(out.to(call.value.dtype), call.batch), unflat(lse, call.batch)

    def edge_scores(self, call: AttentionCall, layout: RowsLayout) -> Tensor:
        """``[..., E, H]``: score · gain + bias."""
        (found,) = rows_scores(_given(_widened(replace(call, edge_value=None)), layout))
        return unflat(found, call.batch)

    def edge_softmax(self, scores: Tensor, layout: RowsLayout) -> Tensor:
        """``[..., E, H]``: normalised over the edges that enter the same target."""
        members = scores.reshape(scores.shape[:-2].numel(), *scores.shape[-2:])
        members = members.to(accumulator(scores))
        (weights,) = rows_softmax(
            {"scores": members, "by_target": layout.by_target, "columns": layout.num_sources}
        )
        return weights.view(scores.shape).to(scores.dtype)

    def aggregate(
        self, value: Tensor, weight: Tensor | None, reduce: str, layout: RowsLayout
    ) -> Tensor:
        """``[..., N_dst, H, D]``: sum, mean, max or min of weight · value over the edges."""
        batch = value.shape[:-3]
        if weight is not None:
            batch = torch.broadcast_shapes(batch, weight.shape[:-2])
        nodes, shape = flat(value, batch), value.shape[-2:]
        if weight is not None and reduce in ("max", "min"):
            nodes = nodes.to(accumulator(value))  # what is rounded to 16 bits ties with others
        if weight is None or weight.shape[-1] == 1:  # heads need not be told apart
            nodes = nodes.reshape(*nodes.shape[:-2], 1, shape.numel())
        given: dict[str, Any] = {"value": nodes, "reduce": REDUCES[reduce]}
        if weight is not None:
            given["weight"] = _members(weight, batch, 2)
        (out,) = rows_aggregate({**given, **_sides(layout, given)})
        return out.view(*batch, out.shape[-3], *shape).to(value.dtype)


def _gather_seconds(size: int) -> float:
    """Seconds an element, forward and backward, from node tensors of this many bytes."""
    return 0.17e-9 if size < 2e6 else 0.5e-9 if size < 1e7 else 1.1e-9


def _widened(call: AttentionCall) -> AttentionCall:
    """The call in float32 where its kernel would round the projected keys of edges to 16 bits.

    It expands them, a few edges at a time, in the type of the nodes; only an additive score asks
    for that.
    """
    expands = isinstance(call.score, Additive) and isinstance(call.edge_key, Projected)
    if not expands or call.query.dtype.itemsize > 2:
        return call
    return replace(call, query=call.query.float(), key=call.key.float(), value=call.value.float())


def _given(call: AttentionCall, layout: RowsLayout) -> dict[str, Any]:
    """The arguments of the operators, by name."""
    given: dict[str, Any] = {"value": flat(call.value, call.batch)}
    kind, activation, slope, scale = 0, 0, 0.0, 1.0
    if call.score is not None:
        given["query"], given["key"] = flat(call.query, call.batch), flat(call.key, call.batch)
        if call.gain is not None:
            _put_term(given, "gain", call.gain, call.batch)
        if call.edge_key is not None:
            _put_vectors(given, "edge_key", call.edge_key, call.batch)
    if isinstance(call.score, Dot):
        kind, scale = 1, call.score.scale_for(call.query.shape[-1])
    elif isinstance(call.score, Additive):
        kind = 2
        activation, fixed = ACTIVATIONS[call.score.activation]
        slope = call.score.negative_slope if fixed is None else fixed
        if call.score.weight is not None:
            given["score_weight"] = call.score.weight.to(accumulator(call.value))
    if call.bias is not None:
        _put_term(given, "bias", call.bias, call.batch)
    if call.edge_value is not None:
        _put_vectors(given, "edge_value", call.edge_value, call.batch)
    return {
        **given,
        **_sides(layout, given),
        "score": kind,
        "activation": activation,
        "scale": scale,
        "slope": slope,
        "dropout": call.dropout,
        "seed": call.seed,
        "first_edge": call.first_edge,
    }


def _sides(layout: RowsLayout, given: dict[str, Any]) -> dict[str, Any]:
    """The edges by target, and by source where gradients will ask for them."""
    tensors = [x for x in given.values() if isinstance(x, Tensor)]
    return {
        "by_target": layout.by_target,
        "by_source": layout.by_source if wants_gradient(tensors) else [],
    }


def _put_term(given: dict[str, Any], name: str, term: EdgeTerm, batch: torch.Size) -> None:
    """``[B or 1, E, H or 1]``, or ``[1, classes, H or 1]`` and the index."""
    if isinstance(term, TableBias):
        given[name], given[f"{name}_index"] = term.table[None], term.index
    else:
        given[name] = _members(term, batch, 2)


def _put_vectors(given: dict[str, Any], name: str, vectors: EdgeVector, batch: torch.Size) -> None:
    """``[B or 1, E, H, D]``, or features ``[E, F]`` and their weight."""
    if isinstance(vectors, Projected):
        given[f"{name}_features"], given[f"{name}_weight"] = vectors.features, vectors.weight
    else:
        given[name] = _members(vectors.to(given["value"].dtype), batch, 3)


def _members(x: Tensor, batch: torch.Size, dims: int) -> Tensor:
    """Edge tensors with one leading dimension: 1 where all members share them, else B."""
    if x.shape[:-dims].numel() == 1:
        return x.reshape(1, *x.shape[-dims:])
    return x.expand(*batch, *x.shape[-dims:]).flatten(0, -dims - 1)
