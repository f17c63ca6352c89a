"""The engine "reference": attention by gather, softmax and scatter in plain PyTorch.

The code is meant to be short and easy to check rather than fast.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise.attention.biases import EdgeTerm, EdgeVector, Projected, TableBias
from edgewise.attention.normalisers import Entmax
from edgewise.attention.scores import Score
from edgewise.engines.call import AttentionCall, Problem
from edgewise.engines.costs import Work
from edgewise.engines.dropout import dropout_mask
from edgewise.engines.entmax import entmax


@dataclass(frozen=True, eq=False)
class EdgeLayout:
    """Source and target node of each edge, ``[E]`` each, in the caller's edge order."""

    source: Tensor
    target: Tensor
    num_targets: int
    num_sources: int


class Reference:
    """Attention edge by edge, for every graph, score, dtype and device."""

    name = "reference"
    layout = EdgeLayout
    grouped_heads = False

    def refuses(self, problem: Problem) -> list[str]:  # noqa: ARG002 - all problems are supported
        """Return an empty list, because this engine supports every call."""
        return []

    def work(self, problem: Problem) -> Work:
        """Return the number of times each operation runs; gathers take most of the time."""
        edges = problem.batch * problem.num_edges
        heads, elements = edges * problem.heads, problem.width + problem.value_width
        amounts: dict[str, float] = {
            "call": 1,
            "edge": edges,
            "head": heads,
            "element": heads * elements,
        }
        if problem.operation == "aggregate":
            return "reference sums", amounts
        return "reference", {
            **amounts,
            "term head": (problem.gain + problem.bias) * heads,
            "entmax head": heads if problem.entmax else 0,  # PyTorch 2.9 cannot trace bool * size
        }

    def attend(self, call: AttentionCall, layout: EdgeLayout) -> Tensor:
        """Return the attention output ``[..., N_dst, H, Dv]``."""
        return self.attend_with_lse(call, layout)[0]

    def attend_with_lse(self, call: AttentionCall, layout: EdgeLayout) -> tuple[Tensor, Tensor]:
        """Return the output, and the log-sum-exp of the scores ``[..., N_dst, H]``."""
        scores = self.edge_scores(call, layout)
        # Values may have a batch dimension when query and key, and so the scores, have none.
        scores = scores.expand(*call.batch, *scores.shape[-2:])
        if call.normaliser is None:
            weights, lse = _softmax(scores, layout)
        else:  # Entmax has no log-sum-exp, so return zeros.
            weights = self.edge_entmax(scores, call.normaliser, layout)
            lse = weights.new_zeros(*weights.shape[:-2], layout.num_targets, weights.shape[-1])
        if call.dropout > 0:
            mask = dropout_mask(
                call.seed,
                call.dropout,
                batch=call.batch.numel(),
                first_edge=call.first_edge,
                edges=weights.shape[-2],
                heads=weights.shape[-1],
                like=weights,
            )
            weights = weights * mask.view(weights.shape)
        message = wide(call.value).index_select(-3, layout.source)
        if call.edge_value is not None:
            message = message + wide(expand(call.edge_value))
        out = _scatter_sum(weights[..., None] * message, layout.target, -3, layout.num_targets)
        return out.to(call.value.dtype), lse

    def edge_scores(self, call: AttentionCall, layout: EdgeLayout) -> Tensor:
        """Return score · gain + bias for each edge, ``[..., E, H]``, in the caller's edge order."""
        query = wide(call.query).index_select(-3, layout.target)
        key = wide(call.key).index_select(-3, layout.source)
        if call.edge_key is not None:
            key = key + wide(expand(call.edge_key))
        scores = _score(call.score, query, key)
        if call.gain is not None:
            scores = scores * wide(expand(call.gain))
        if call.bias is not None:
            scores = scores + wide(expand(call.bias))
        return scores

    def edge_softmax(self, scores: Tensor, layout: EdgeLayout) -> Tensor:
        """Return attention weights ``[..., E, H]``: the softmax over the edges of each target."""
        return _softmax(wide(scores), layout)[0].to(scores.dtype)

    def edge_entmax(self, scores: Tensor, normaliser: Entmax, layout: EdgeLayout) -> Tensor:
        """Return the α-entmax over the edges of each target, ``[..., E, H]``."""
        scores, target, rows = wide(scores), layout.target, layout.num_targets
        most = largest_scores(scores, layout).index_select(-2, target)

        def total(x: Tensor) -> Tensor:
            return _scatter_sum(x, target, -2, rows).index_select(-2, target)

        return entmax(scores, most, normaliser.alpha, total, len(target))

    def aggregate(
        self, value: Tensor, weight: Tensor | None, reduce: str, layout: EdgeLayout
    ) -> Tensor:
        """Reduce weight · value over the edges of each target to ``[..., N_dst, H, D]``."""
        message = wide(value).index_select(-3, layout.source)
        if weight is not None:
            message = message * wide(weight)[..., None]
        if reduce in ("max", "min"):
            return _scatter_extreme(message, layout, reduce).to(value.dtype)
        out = _scatter_sum(message, layout.target, -3, layout.num_targets)
        if reduce == "mean":
            ones = torch.ones_like(layout.target)
            degree = _scatter_sum(ones, layout.target, 0, layout.num_targets)
            out = out / degree.clamp(min=1)[:, None, None]
        return out.to(value.dtype)


REFERENCE = Reference()
"""The instance that other engines call for what they do not support."""


def wide(x: Tensor) -> Tensor:
    """Convert 16-bit floats to float32; return other tensors unchanged."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def expand(term: EdgeTerm | EdgeVector) -> Tensor:
    """Return one entry per edge as a tensor.

    ``term`` is such a tensor already, a table with the class of each edge, or edge features with
    the weight that projects them.
    """
    return term.expand() if isinstance(term, (TableBias, Projected)) else term


def _score(score: Score, query: Tensor, key: Tensor) -> Tensor:
    if score is None:
        batch = torch.broadcast_shapes(query.shape[:-1], key.shape[:-1])
        return query.new_zeros(batch)
    return score(query, key)


def _softmax(scores: Tensor, layout: EdgeLayout) -> tuple[Tensor, Tensor]:
    """Return the softmax over the edges of each target, and the log-sum-exp ``[..., N_dst, H]``."""
    target, rows = layout.target, layout.num_targets
    most = largest_scores(scores, layout)
    exponential = (scores - most.index_select(-2, target)).exp()
    total = _scatter_sum(exponential, target, -2, rows)
    nothing = total == 0
    total = total.masked_fill(nothing, 1.0)
    lse = (total.log() + most).masked_fill(nothing, -torch.inf)
    return exponential / total.index_select(-2, target), lse


def largest_scores(scores: Tensor, layout: EdgeLayout) -> Tensor:
    """Return the largest score of each target, ``[..., N_dst, H]``; 0 if none is above -inf."""
    shape = (*scores.shape[:-2], layout.num_targets, scores.shape[-1])
    index = layout.target[:, None].expand_as(scores)
    most = torch.full(shape, -torch.inf, dtype=scores.dtype, device=scores.device)
    most = most.scatter_reduce(-2, index, scores.detach(), "amax")
    return most.masked_fill(most == -torch.inf, 0.0)


def _scatter_sum(x: Tensor, target: Tensor, dim: int, rows: int) -> Tensor:
    shape = list(x.shape)
    shape[dim] = rows
    return x.new_zeros(shape).index_add(dim, target, x)


def _scatter_extreme(message: Tensor, layout: EdgeLayout, reduce: str) -> Tensor:
    """Return the maximum or minimum over the edges of each target, 0 for a target without edges."""
    shape = list(message.shape)
    shape[-3] = layout.num_targets
    index = layout.target[:, None, None].expand_as(message)
    # The backward pass of scatter_reduce counts an initial value that equals the extreme as one
    # more tie, even with include_self=False. NaN equals nothing, so it is never counted.
    base = message.new_full(shape, torch.nan)
    kind = "amax" if reduce == "max" else "amin"
    extreme = base.scatter_reduce(-3, index, message, kind, include_self=False)
    isolated = torch.ones(layout.num_targets, dtype=torch.bool, device=message.device)
    isolated = isolated.index_fill(0, layout.target, False)
    return extreme.masked_fill(isolated[:, None, None], 0.0)
