"""The steps of attention as separate functions: scores of edges, and their softmax.

Use them where :func:`edgewise.attend` does too much: MAGNA diffuses the same weights several times,
GatedGCN has vectors as scores, and a plot of attention needs only the weights. The third step, the
weighted sum, is :func:`edgewise.aggregate` with ``weight``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice, describe
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import (
    AttendOptions,
    attend_with_lse,
    checked_call,
    engine_for,
    loses_lse,
)
from edgewise.attention.checks import checked_term
from edgewise.attention.scores import Score
from edgewise.engines import EDGE_ENGINES, ENGINES, REFERENCE, ROWS, EdgeEngine
from edgewise.engines.call import AttentionCall, Problem, without_autocast
from edgewise.engines.layouts import graph_facts, layout_of
from edgewise.engines.plan import plan
from edgewise.engines.reference import EdgeLayout
from edgewise.graphs import Graph, Pattern, check_sized
from edgewise.graphs.graph import bind_graph


def edge_scores(
    query: Tensor, key: Tensor, graph: Pattern, **options: Unpack[AttendOptions]
) -> Tensor:
    r"""Compute the scores :math:`s_{ij} = \mathrm{score}(q_i, k_j + e_{ij}) \cdot g_{ij} + b_{ij}`.

    Args:
        query: ``[..., N_dst, H, D]``.
        key: ``[..., N_src, H, D]``.
        graph: the edges. A pattern (a graph for any number of nodes) is converted to the graph
            for the numbers of queries and keys.
        options: ``score``, ``bias`` (b), ``gain`` (g) and ``edge_key`` (e) of
            :func:`edgewise.attend`.

    Returns:
        Scores ``[..., E, H]`` in the order of ``graph.edge_index``.

    Raises:
        ArgumentError: as in :func:`edgewise.attend`, or if ``normaliser`` is given, because scores
            are not normalised.

    Example:
        >>> import torch, edgewise
        >>> query = key = torch.ones(3, 1, 4)
        >>> edgewise.edge_scores(query, key, edgewise.graphs.window(1)).flatten()
        tensor([2., 2., 2., 2., 2., 2., 2.])
    """
    call, graph = _prepared(query, key, graph, options)
    if call.normaliser is not None:
        raise ArgumentError(
            "normaliser",
            expected="no normaliser, because edge_scores returns unnormalised scores",
            got=repr(options["normaliser"]),
            remedy="omit normaliser, or call attention_weights for normalised scores",
        )
    return _scores(call, graph)


def edge_softmax(scores: Tensor, graph: Graph) -> Tensor:
    r"""Compute the weights :math:`w_{ij} = e^{s_{ij}} / \sum_{k \in N(i)} e^{s_{ik}}`.

    Args:
        scores: ``[..., E, H]`` for E edges and H heads, in the order of ``graph.edge_index``; -inf
            masks an edge.
        graph: the edges, with a known number of nodes. For a pattern (a graph for any number of
            nodes, such as ``causal()``), pass ``pattern.bind(n)``, its graph with n nodes.

    Returns:
        Weights ``[..., E, H]``. The weights of all edges to one target sum to 1.

    Example:
        >>> import torch, edgewise
        >>> graph = edgewise.graphs.causal().bind(3)
        >>> edgewise.edge_softmax(torch.zeros(graph.num_edges, 1), graph).flatten()
        tensor([1.0000, 0.5000, 0.5000, 0.3333, 0.3333, 0.3333])
    """
    check_sized(graph)
    graph = bind_graph(graph, graph.num_targets, graph.num_sources, scores.device)
    checked_term("scores", scores, graph.num_edges, scores[..., None])
    return _softmax(scores, graph)


def attention_weights(
    query: Tensor,
    key: Tensor,
    graph: Pattern,
    *,
    edges: Tensor | None = None,
    **options: Unpack[AttendOptions],
) -> Tensor:
    """Compute the weights by which :func:`edgewise.attend` multiplies the values.

    Args:
        query: ``[..., N_dst, H, D]``.
        key: ``[..., N_src, H, D]``.
        graph: the edges. A pattern (a graph for any number of nodes) is converted to the graph
            for the numbers of queries and keys.
        edges: integer indices ``[K]`` of selected edges, or a boolean mask ``[E]``; all edges by
            default. With softmax, scores and weights of unselected edges are not held in memory,
            unless the largest bias of a target is below -500 or above 500.
        options: ``score``, ``bias``, ``gain``, ``edge_key`` and ``normaliser`` of
            :func:`edgewise.attend`.

    Returns:
        Weights ``[..., E, H]`` in the order of ``graph.edge_index``; ``[..., K, H]`` in the order
        of ``edges`` if they are given.

    Example:
        >>> import torch, edgewise
        >>> query = key = torch.zeros(3, 1, 8)
        >>> edgewise.attention_weights(query, key, edgewise.graphs.causal()).flatten()
        tensor([1.0000, 0.5000, 0.5000, 0.3333, 0.3333, 0.3333])
    """
    call, graph = _prepared(query, key, graph, options)
    edges = _checked_selection(edges)
    if call.normaliser is not None:
        layout = layout_of(graph, REFERENCE.layout)
        scores = _scores(call, graph)
        weights = REFERENCE.edge_entmax(scores, call.normaliser, layout).to(scores.dtype)
        return weights if edges is None else weights[..., edges, :]
    if edges is None:
        return _softmax(_scores(call, graph), graph)
    if loses_lse(call, graph):
        return _softmax(_scores(call, graph), graph)[..., edges, :]
    return _chosen_weights(call, graph, edges, options)


def _checked_selection(edges: Tensor | None) -> Tensor | None:
    """Return indices of edges as int64, because PyTorch reads uint8 as a boolean mask."""
    if not isinstance(edges, Tensor) or edges.dtype == torch.bool:
        return edges
    if (edges.is_floating_point() or edges.is_complex()) and edges.numel():
        raise ArgumentError(
            "edges",
            expected="integer indices of edges, or a boolean mask",
            got=describe(edges),
            remedy="convert the indices with .long()",
        )
    return edges.long()


def _prepared(
    query: Tensor, key: Tensor, graph: Pattern, options: AttendOptions
) -> tuple[AttentionCall, Graph]:
    call, graph = checked_call(query, key, key, graph, **options)
    return call.ungrouped(), graph


def _scores(call: AttentionCall, graph: Graph) -> Tensor:
    engine = _engine(call.query, graph, call.score)
    with without_autocast(call.query.device):
        return engine.edge_scores(call, layout_of(graph, engine.layout))


def _softmax(scores: Tensor, graph: Graph) -> Tensor:
    engine = _engine(scores, graph)
    return engine.edge_softmax(scores, layout_of(graph, engine.layout))


def _chosen_weights(
    call: AttentionCall, graph: Graph, edges: Tensor, options: AttendOptions
) -> Tensor:
    scores_only: AttendOptions = {**options, "dropout": 0.0, "edge_value": None}
    value = call.key.new_zeros(*call.key.shape[:-1], 1)
    _, lse = attend_with_lse(call.query, call.key, value, graph, **scores_only)
    target = graph.target[edges]
    layout = EdgeLayout(graph.source[edges], target, graph.num_targets, graph.num_sources)
    with without_autocast(call.query.device):
        without_value = replace(call, edge_value=None, dropout=0.0)
        scores = REFERENCE.edge_scores(without_value.on_edges(edges), layout)
    lse = lse.index_select(-2, target)
    masked = lse == -torch.inf  # True if all edges of the target are masked.
    return (scores - lse.masked_fill(masked, 0.0)).exp()


def _engine(like: Tensor, graph: Graph, score: Score = None) -> EdgeEngine[Any]:
    """Return the engine of :func:`edgewise.using_engine`, or the first that supports the call.

    Neither "dense" nor "tiles" computes single edges. "reference" replaces "dense", because both
    consist of PyTorch's operations; "tiles" is replaced by the first engine, as "auto" is.
    """
    requested = engine_for("auto")
    check_choice("engine", requested, ["auto", *ENGINES])
    if requested in (REFERENCE.name, "dense"):
        return REFERENCE
    problem = Problem(
        *graph.derived(graph_facts),
        operation="edges",
        batch=1,
        heads=1,
        width=0,
        value_width=0,
        device=like.device,
        dtype=like.dtype,
        score=type(score),
    )
    if requested == ROWS.name:
        plan(problem, {ROWS.name: ROWS, REFERENCE.name: REFERENCE}, requested)  # or an error
        return ROWS
    return next(engine for engine in EDGE_ENGINES if not engine.refuses(problem))
