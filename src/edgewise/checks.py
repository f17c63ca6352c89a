"""Checks of the primitive's arguments, before any work is done."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise.biases import EdgeTerm, EdgeVector, Projected, TableBias
from edgewise.engines.call import AttentionCall
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, Pattern, check_graph
from edgewise.scores import Additive, Dot


def bound(graph: Pattern, num_targets: int, num_sources: int, device: torch.device) -> Graph:
    """The graph of these sizes on this device."""
    return check_graph(graph).bind(num_targets, num_sources).to(device)


def check_nodes(name: str, x: Tensor) -> None:
    """Node features are ``[..., N, H, D]`` floats."""
    if not isinstance(x, Tensor) or x.dim() < 3 or not x.dtype.is_floating_point:
        got = f"{x.dtype} {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise ArgumentError(
            name,
            expected="floats of shape [..., N, H, D] (nodes, heads, width of a head)",
            got=got,
            remedy="split the width into heads with .unflatten(-1, (H, D)); H may be 1",
        )


def check_call(call: AttentionCall, graph: Graph) -> None:
    """Shapes, heads and devices of a call agree with each other and with the graph."""
    query, key, value = call.query, call.key, call.value
    heads, width = query.shape[-2:]
    _same("key", key.shape[-2], heads, "heads", "query")
    _same("value", value.shape[-2], heads, "heads", "query")
    _same("value", value.shape[-3], key.shape[-3], "sources", "key")
    _same_type(query, key=key, value=value)
    if call.score is not None:
        _same("key", key.shape[-1], width, "wide", "query")
    if isinstance(call.score, Additive):
        _check_additive(call.score, heads, width)
    elif not (call.score is None or isinstance(call.score, Dot) or callable(call.score)):
        raise ArgumentError(
            "score",
            expected="Dot(), Additive(...), a callable (query, key) -> score, or None",
            got=repr(call.score),
            remedy="see edgewise.scores",
        )
    check_term("bias", call.bias, graph.num_edges, heads)
    check_term("gain", call.gain, graph.num_edges, heads)
    _check_vector("edge_key", call.edge_key, graph.num_edges, heads, width)
    _check_vector("edge_value", call.edge_value, graph.num_edges, heads, value.shape[-1])
    _check_batch(call)
    if not 0.0 <= call.dropout <= 1.0:
        raise ArgumentError(
            "dropout",
            expected="a probability from 0 to 1",
            got=repr(call.dropout),
            remedy="pass 0.0 outside of training",
        )


def check_term(name: str, term: EdgeTerm | None, num_edges: int, heads: int) -> None:
    """A bias, gain or weight has one number an edge and head, in the graph's edge order."""
    if term is None:
        return
    if isinstance(term, TableBias):
        shape, dtype = torch.Size((term.index.shape[0], term.table.shape[1])), term.table.dtype
    else:
        shape, dtype = term.shape, term.dtype
    if not dtype.is_floating_point:
        raise ArgumentError(
            name, expected="floats", got=str(dtype), remedy="convert it with .to(torch.float32)"
        )
    if len(shape) < 2 or shape[-2] != num_edges or shape[-1] not in (1, heads):
        raise ArgumentError(
            name,
            expected=f"shape [..., {num_edges}, {heads}] or [..., {num_edges}, 1] (edges, heads)",
            got=f"shape {list(shape)}",
            remedy="give one row an edge, in the order of graph.edge_index",
        )


def _check_batch(call: AttentionCall) -> None:
    try:
        _ = call.batch
    except RuntimeError as error:
        batches = call.batches()
        raise ArgumentError(
            ", ".join(batches),
            expected="leading batch dimensions that broadcast",
            got=", ".join(f"{name} {list(batch)}" for name, batch in batches.items()),
            remedy="the last dimensions are [nodes, heads, width], or [edges, heads] of edge terms",
        ) from error


def _check_vector(
    name: str, vector: EdgeVector | None, num_edges: int, heads: int, width: int
) -> None:
    if vector is None:
        return
    if isinstance(vector, Projected):
        shape = (vector.features.shape[0], *vector.weight.shape[:2])
    else:
        shape = tuple(vector.shape[-3:])
    if shape != (num_edges, heads, width):
        raise ArgumentError(
            name,
            expected=f"shape [{num_edges}, {heads}, {width}] (edges, heads, width)",
            got=f"shape {list(shape)}",
            remedy="give one row an edge, in the order of graph.edge_index",
        )


def _check_additive(score: Additive, heads: int, width: int) -> None:
    if score.weight is None and width != 1:
        raise ArgumentError(
            "score",
            expected=f"Additive with a weight of shape [{heads}, {width}]",
            got="no weight",
            remedy="only heads of width 1 (as in GAT) need none",
        )
    if score.weight is not None and tuple(score.weight.shape) != (heads, width):
        raise ArgumentError(
            "score.weight",
            expected=f"shape [{heads}, {width}] (heads, width), as the query has",
            got=f"shape {list(score.weight.shape)}",
            remedy="one vector a head",
        )


def _same(name: str, got: int, expected: int, what: str, other: str) -> None:
    if got != expected:
        raise ArgumentError(
            name,
            expected=f"{expected} {what}, as {other} has",
            got=f"{got}",
            remedy="shapes are [..., nodes, heads, width]",
        )


def _same_type(query: Tensor, **others: Tensor) -> None:
    for name, other in others.items():
        if (other.dtype, other.device) != (query.dtype, query.device):
            raise ArgumentError(
                name,
                expected=f"{query.dtype} on {query.device}, as query is",
                got=f"{other.dtype} on {other.device}",
                remedy="convert it with .to(query)",
            )
