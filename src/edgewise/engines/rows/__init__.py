"""The engine "rows": fused kernels for graphs with arbitrary edges, in C++ or Triton (GPU)."""

from __future__ import annotations

from dataclasses import replace
from types import NoneType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise.attention.biases import EdgeVector, Projected
from edgewise.attention.scores import Additive, Dot
from edgewise.engines import triton_rows
from edgewise.engines.call import ACCUMULATORS, AttentionCall, Problem
from edgewise.engines.costs import Work
from edgewise.engines.native.operator import KernelOperator, flat, refusals, unflat, wants_gradient
from edgewise.engines.native.terms import one_batch_axis, term_arguments
from edgewise.engines.rows.aggregate import REDUCES, rows_aggregate
from edgewise.engines.rows.attend import rows_attend, rows_scores
from edgewise.engines.rows.formula import ACTIVATIONS
from edgewise.engines.rows.layout import RowsLayout
from edgewise.engines.rows.softmax import rows_softmax
from edgewise.engines.triton_rows.aggregate import triton_rows_aggregate
from edgewise.engines.triton_rows.attend import triton_rows_attend, triton_rows_scores
from edgewise.engines.triton_rows.layout import TritonLayout
from edgewise.engines.triton_rows.softmax import triton_rows_softmax


class Operators(NamedTuple):
    """The four operators of the engine, in C++ or in Triton; both have the same arguments."""

    attend: KernelOperator
    scores: KernelOperator
    softmax: KernelOperator
    aggregate: KernelOperator


OPERATORS = {
    RowsLayout: Operators(rows_attend, rows_scores, rows_softmax, rows_aggregate),
    TritonLayout: Operators(
        triton_rows_attend, triton_rows_scores, triton_rows_softmax, triton_rows_aggregate
    ),
}


FURTHER = ((2e6, "element, far"), (1e7, "element, farther"), (5e7, "element, farthest"))
"""Pairs of a size in bytes and the name of a cost in ``costs.json``.

If the keys and values of all sources are at least this large, gathering them is slower and has this
cost. The last such pair applies.
"""
LANES = 8
"""The kernels are slower if the width of a head is not a multiple of this number."""


class Rows:
    """Attention for graphs with arbitrary edges, in one pass over the edges of each target.

    Each output is written by one thread, so results are bitwise the same for any number of threads.
    """

    name = "rows"
    layout = RowsLayout
    grouped_heads = False

    def refuses(self, problem: Problem) -> list[str]:
        """Return the reasons why this engine cannot compute a call; an empty list if it can."""
        counts = problem.num_edges, problem.num_targets, problem.num_sources
        if problem.device.type == "cuda" or triton_rows.INTERPRETED:
            reasons = triton_rows.refuses(problem, max(counts))
        else:
            reasons = refusals(problem, max(counts))
        if not issubclass(problem.score, Dot | Additive | NoneType):
            reasons.append("it supports only the scores Dot, Additive and None")
        if problem.entmax:
            reasons.append("it supports only the normaliser softmax")
        return reasons

    def work(self, problem: Problem) -> Work:
        """Return the number of times each operation runs; gathers are slow from large nodes."""
        nodes = problem.batch * (problem.num_targets + problem.num_sources)
        edges = problem.batch * problem.num_edges
        heads, elements = edges * problem.heads, problem.width + problem.value_width
        gathered = problem.dtype.itemsize * problem.num_sources * problem.heads * elements
        element = "element, near"
        for size, further in FURTHER:
            if gathered >= size:
                element = further
        amounts: dict[str, float] = {"call": 1, "node": nodes, "edge": edges, "head": heads}
        amounts[element] = heads * elements
        if problem.operation == "aggregate":
            return "rows sums", amounts
        terms = problem.bias + problem.gain
        amounts["term"], amounts["term head"] = terms, terms * heads
        amounts["layout"] = problem.num_targets == 1
        amounts["odd head"] = heads if problem.value_width % LANES else 0
        if issubclass(problem.score, Additive):
            amounts["additive"], amounts["additive element"] = 1, heads * problem.width
        return "rows", amounts

    def attend(self, call: AttentionCall, layout: RowsLayout) -> Tensor:
        """Return the attention output ``[..., N_dst, H, Dv]``."""
        out = OPERATORS[type(layout)].attend(*_arguments(call, layout))["out"]
        if call.batch:
            out = unflat(out, call.batch)
        dtype = call.value.dtype
        # Tensor.to takes 3 µs even if it changes nothing.
        return out if out.dtype == dtype else out.to(dtype)

    def attend_with_lse(self, call: AttentionCall, layout: RowsLayout) -> tuple[Tensor, Tensor]:
        """Return the output, and the log-sum-exp of the scores ``[..., N_dst, H]``."""
        results = OPERATORS[type(layout)].attend(*_arguments(call, layout, with_lse=True))
        out = unflat(results["out"], call.batch).to(call.value.dtype)
        return out, unflat(results["lse"], call.batch)

    def edge_scores(self, call: AttentionCall, layout: RowsLayout) -> Tensor:
        """Return score · gain + bias for each edge, ``[..., E, H]``, in the caller's edge order."""
        arguments = _arguments(replace(call, edge_value=None), layout)
        return unflat(OPERATORS[type(layout)].scores(*arguments)["scores"], call.batch)

    def edge_softmax(self, scores: Tensor, layout: RowsLayout) -> Tensor:
        """Return attention weights ``[..., E, H]``: the softmax over the edges of each target."""
        batched = scores.reshape(scores.shape[:-2].numel(), *scores.shape[-2:])
        batched = batched.to(ACCUMULATORS[scores.dtype])
        side = {"by_target": layout.by_target, "columns": layout.num_sources}
        weights = OPERATORS[type(layout)].softmax({"scores": batched}, side)["weights"]
        return weights.view(scores.shape).to(scores.dtype)

    def aggregate(
        self, value: Tensor, weight: Tensor | None, reduce: str, layout: RowsLayout
    ) -> Tensor:
        """Reduce weight · value over the edges of each target to ``[..., N_dst, H, D]``."""
        batch = value.shape[:-3]
        if weight is not None:
            batch = torch.broadcast_shapes(batch, weight.shape[:-2])
        nodes, shape = flat(value, batch) if batch else value, value.shape[-2:]
        if weight is not None and reduce in ("max", "min"):
            # Rounding products to 16 bits could make different ones equal, so use float32.
            nodes = nodes.to(ACCUMULATORS[value.dtype])
        # If all heads have the same weight, treat them as one wide head.
        if weight is None or weight.shape[-1] == 1:
            nodes = nodes.reshape(*nodes.shape[:-2], 1, shape.numel())
        leaves = {"value": nodes}
        if weight is not None:
            leaves["weight"] = (
                weight[None] if weight.dim() == 2 else one_batch_axis(weight, batch, 2)
            )
        others = {
            "reduce": REDUCES[reduce],
            "by_target": layout.by_target,
            "by_source": layout.by_source if wants_gradient(leaves.values()) else [],
        }
        out = OPERATORS[type(layout)].aggregate(leaves, others)["out"]
        return out.view(*batch, out.shape[-3], *shape).to(value.dtype)


def _arguments(
    call: AttentionCall, layout: RowsLayout, *, with_lse: bool = False
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the arguments that can have gradients, and all other arguments."""
    batch, score = call.batch, call.score
    query, key, value = call.query, call.key, call.value
    if batch:
        query, key, value = flat(query, batch), flat(key, batch), flat(value, batch)
    # The kernel would round the projected features of an additive score to the dtype of the nodes.
    projects = isinstance(score, Additive) and isinstance(call.edge_key, Projected)
    if projects and query.dtype.itemsize == 2:
        query, key, value = query.float(), key.float(), value.float()
    leaves = {"value": value}
    others: dict[str, Any] = {
        "score": 0,
        "activation": 0,
        "scale": 1.0,
        "slope": 0.0,
        "dropout": call.dropout,
        "seed": call.seed,
        "first_edge": call.first_edge,
        "with_lse": with_lse,
        "by_target": layout.by_target,
        "by_source": [],
    }
    if score is not None:
        leaves["query"], leaves["key"] = query, key
        if call.gain is not None:
            term_arguments(leaves, others, "gain", call.gain, batch)
        if call.edge_key is not None:
            _put_vectors(leaves, "edge_key", call.edge_key, batch)
    if isinstance(score, Dot):
        others["score"], others["scale"] = 1, score.scale_for(query.shape[-1])
    elif isinstance(score, Additive):
        others["score"] = 2
        others["activation"], slope = ACTIVATIONS[score.activation]
        others["slope"] = score.negative_slope if slope is None else slope
        if score.weight is not None:
            leaves["score_weight"] = score.weight.to(ACCUMULATORS[value.dtype])
    if call.bias is not None:
        term_arguments(leaves, others, "bias", call.bias, batch)
    if call.edge_value is not None:
        _put_vectors(leaves, "edge_value", call.edge_value, batch)
    if wants_gradient(leaves.values()):
        others["by_source"] = layout.by_source
    return leaves, others


def _put_vectors(
    leaves: dict[str, Tensor], name: str, vectors: EdgeVector, batch: torch.Size
) -> None:
    """Add edge keys or values, or their features and weight, to the arguments ``leaves``."""
    if isinstance(vectors, Projected):
        leaves[f"{name}_features"], leaves[f"{name}_weight"] = vectors.features, vectors.weight
    else:
        leaves[name] = one_batch_axis(vectors.to(leaves["value"].dtype), batch, 3)
