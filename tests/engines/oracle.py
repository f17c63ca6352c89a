"""Attention and aggregation in explicit Python loops over nodes, edges and heads."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

import edgewise as ew
from edgewise.graphs import Graph


def attend_with_lse(
    query: Tensor, key: Tensor, value: Tensor, graph: Graph, **options: Any
) -> tuple[Tensor, Tensor]:
    """Output ``[N_dst, H, Dv]`` and log-sum-exp ``[N_dst, H]``."""
    nothing = query.new_tensor(-math.inf)
    outs, logs = [], []
    for i in range(graph.num_targets):
        for h in range(query.shape[1]):
            scores, values = [], []
            for e, (j, target) in enumerate(graph.edge_index.T.tolist()):
                if target == i:
                    k = key[j, h] + vector(options.get("edge_key"), e, h)
                    raw = score(options.get("score", ew.Dot()), query[i, h], k, h)
                    gain, bias = (term(options.get(name), e, h) for name in ("gain", "bias"))
                    scores.append((raw if gain is None else raw * gain) + (bias or 0 * raw))
                    values.append(value[j, h] + vector(options.get("edge_value"), e, h))
            powers = [s.exp() for s in scores]
            total = sum(powers)
            if isinstance(total, Tensor) and total > 0:
                pairs = zip(powers, values, strict=True)
                outs.append(torch.stack([p / total * v for p, v in pairs]).sum(0))
                logs.append(total.log())
            else:
                outs.append(0 * query.new_zeros(value.shape[-1]))
                logs.append(nothing)
    if not outs:
        empty = (graph.num_targets, query.shape[1])
        return query.new_zeros(*empty, value.shape[-1]), query.new_zeros(empty)
    shape = (graph.num_targets, query.shape[1])
    return torch.stack(outs).unflatten(0, shape), torch.stack(logs).unflatten(0, shape)


def score(kind: Any, query: Tensor, key: Tensor, head: int) -> Tensor:
    """One number from two vectors."""
    if kind is None:
        return query.new_zeros(())
    if isinstance(kind, ew.Dot):
        scale = 1 / math.sqrt(len(query)) if kind.scale is None else kind.scale
        return scale * torch.dot(query, key)
    if isinstance(kind, ew.Additive):
        x = query + key
        energy = {
            "identity": lambda: x,
            "relu": lambda: torch.where(x > 0, x, 0),
            "leaky_relu": lambda: torch.where(x > 0, x, kind.negative_slope * x),
            "tanh": lambda: 1 - 2 / ((2 * x).exp() + 1),
            "gelu": lambda: x * (1 + torch.erf(x / math.sqrt(2))) / 2,
            "silu": lambda: x / (1 + (-x).exp()),
        }[kind.activation]()
        return energy.sum() if kind.weight is None else torch.dot(energy, kind.weight[head])
    return kind(query, key)


def term(given: Any, edge: int, head: int) -> Tensor | None:
    """The bias or gain of one edge and head."""
    if given is None:
        return None
    row = given.table[given.index[edge]] if isinstance(given, ew.TableBias) else given[edge]
    return row[head if len(row) > 1 else 0]


def vector(given: Any, edge: int, head: int) -> Tensor | float:
    """The edge vector of one edge and head."""
    if given is None:
        return 0.0
    if isinstance(given, ew.Projected):
        return given.weight[head] @ given.features[edge]
    return given[edge, head]


def aggregate(value: Tensor, graph: Graph, weight: Tensor | None, reduce: str) -> Tensor:
    """``[N_dst, H, D]``."""
    rows = []
    for i in range(graph.num_targets):
        read = []
        for e, (j, target) in enumerate(graph.edge_index.T.tolist()):
            if target == i:
                read.append(value[j] if weight is None else weight[e][:, None] * value[j])
        rows.append(combine(torch.stack(read), reduce) if read else 0 * value.sum(0))
    return torch.stack(rows) if rows else value.new_zeros(0, *value.shape[1:])


def combine(read: Tensor, reduce: str) -> Tensor:
    if reduce in ("sum", "mean"):
        return read.sum(0) / (len(read) if reduce == "mean" else 1)
    return read.amax(0) if reduce == "max" else read.amin(0)
