r"""The primitive: attention over a graph.

For each target i and head h, over its neighbours :math:`j \in N(i)`:

.. math::
    s_{ij} = \mathrm{score}(q_i, k_j) \cdot \mathrm{gain}_{ij} + \mathrm{bias}_{ij}, \qquad
    w_{ij} = \mathrm{softmax}_j(s_{ij}), \qquad
    o_i = \sum_j w_{ij} v_j

α-entmax, whose weights may be 0, can take the place of softmax: ``edgewise.normalisers``.

Facts that hold everywhere: ``edge_index[0]`` is the source j and ``edge_index[1]`` the target i;
edge tensors are in the order of ``graph.edge_index``; a target that reads nothing gets zeros,
forward and backward; every differentiable argument has a gradient.
"""

from __future__ import annotations

import itertools
from typing import Any, Literal, TypedDict, Unpack, get_args

from torch import Tensor

from edgewise.arguments import check_choice
from edgewise.biases import EdgeTerm, EdgeVector, OffsetBias, TableBias
from edgewise.checks import (
    NodeLayout,
    bind_graph,
    check_nodes,
    checked_call,
    checked_term,
)
from edgewise.engines import ENGINES
from edgewise.engines.call import AttentionCall, Problem
from edgewise.engines.costs import costs_on
from edgewise.engines.merge import merge_attention, merge_work
from edgewise.engines.native.operator import cached_choice
from edgewise.engines.plan import Choice, Plan, choose, engine_for, plan
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, Pattern
from edgewise.layouts import execution_parts, graph_facts, layout_of
from edgewise.normalisers import Normaliser
from edgewise.scores import DOT, Score
from edgewise.torch_internals import in_functorch_transform, is_tracing

Reduce = Literal["sum", "mean", "max", "min"]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: Pattern,
    *,
    score: Score = DOT,
    bias: EdgeTerm | None = None,
    gain: EdgeTerm | None = None,
    edge_key: EdgeVector | None = None,
    edge_value: EdgeVector | None = None,
    dropout: float = 0.0,
    normaliser: Normaliser = "softmax",
    layout: NodeLayout | None = None,
    engine: str = "auto",
) -> Tensor:
    """Attention of every target over the sources that it reads, ``[..., N_dst, H, Dv]``.

    Args:
        query: ``[..., N_dst, H, D]``. Leading batch dimensions share one graph; a ragged batch is
            one packed node axis with :func:`edgewise.graphs.batch`.
        key: ``[..., N_src, H, D]``; or of fewer heads, a divisor of H, each for a group of queries.
        value: ``[..., N_src, H, Dv]``, with as many heads as the key.
        graph: who reads whom; a pattern is bound to the sizes at hand.
        score: ``Dot()``, ``Additive(...)``, any callable of their form, or ``None``: bias alone.
        bias: added to the score, ``[..., E, H]``, ``[..., E, 1]``, a ``TableBias`` or an
            ``OffsetBias``; -inf drops an edge (in most engines its weight 0 times a value that is
            NaN or inf is still NaN).
        gain: multiplies the score, likewise.
        edge_key: added to the key on the edge, ``[..., E, H, D]`` or ``Projected``.
        edge_value: added to the value on the edge, ``[..., E, H, Dv]`` or ``Projected``.
        dropout: probability with which a normalised weight is set to zero; the others grow.
        normaliser: ``"softmax"``, ``"sparsemax"``, ``"entmax"`` (α = 1.5), or ``Entmax(alpha)``,
            with an α for each head if it is a tensor.
        layout: ``"HND"`` where query, key, value and output are ``[..., H, N, D]``, as in PyTorch's
            and Hugging Face's attention; ``"NHD"`` is what is said above. Without a word it is
            that, with a warning where the shapes look like the other.
        engine: ``"auto"`` chooses; a named engine runs or raises.

    Raises:
        ArgumentError: shapes, heads, types or devices that disagree, an edge tensor of another
            length than the edges, a pattern that cannot bind, an engine that cannot serve.

    Papers: Vaswani et al. 2017 (Dot, complete graph); Veličković et al. 2018 (Additive, any graph).

    """
    call, graph = checked_call(
        query,
        key,
        value,
        graph,
        layout,
        score=score,
        bias=bias,
        gain=gain,
        edge_key=edge_key,
        edge_value=edge_value,
        dropout=dropout,
        normaliser=normaliser,
    )
    out = _attend(call, graph, engine_for(engine))
    return out.transpose(-3, -2) if layout == "HND" else out


def _attend(call: AttentionCall, graph: Graph, engine: str) -> Tensor:
    whole = _choose(call, graph, engine)
    # Nothing that is merged is faster than one pass over runs of sources.
    # Parts are merged by their log-sum-exp, which softmax alone has.
    splits = engine == "auto" and call.normaliser is None
    if splits and len(graph.parts) > 1 and whole.engine != "tiles":
        parts = _split(call, graph)
        plans = [choose(_problem(piece, part, lse=True), ENGINES) for piece, part in parts]
        width = call.query.shape[-2] * call.value.shape[-1]
        elements = call.batch.numel() * graph.num_targets * width
        costs = costs_on(call.query.device, call.query.dtype)
        (merging,) = costs.of([merge_work(len(parts), elements)])
        if merging + sum(chosen.seconds for chosen in plans) < whole.seconds:
            pairs = zip(parts, plans, strict=True)
            return merge_attention([_with_lse(*part, chosen.engine) for part, chosen in pairs])[0]
    chosen = ENGINES[whole.engine]
    if not chosen.grouped_heads:
        call = call.ungrouped()
    return chosen.attend(call, layout_of(graph, chosen.layout))


class AttendOptions(TypedDict, total=False):
    """The keyword arguments of :func:`attend`."""

    score: Score
    bias: EdgeTerm | None
    gain: EdgeTerm | None
    edge_key: EdgeVector | None
    edge_value: EdgeVector | None
    dropout: float
    normaliser: Normaliser


def attend_with_lse(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: Pattern,
    *,
    engine: str = "auto",
    **options: Unpack[AttendOptions],
) -> tuple[Tensor, Tensor]:
    """:func:`attend`, and the log-sum-exp of the scores ``[..., N_dst, H]`` (-inf: reads nothing).

    Attention over disjoint graphs, each with projections of its own if need be, becomes attention
    over their union with :func:`merge_attention`.

    Raises:
        ArgumentError: as :func:`attend` does; a normaliser that is not softmax, whose weights no
            log-sum-exp gives.

    """
    call, graph = checked_call(query, key, value, graph, **options)
    if call.normaliser is not None:
        raise ArgumentError(
            "normaliser",
            expected="softmax, whose parts are merged by their log-sum-exp",
            got=repr(options["normaliser"]),
            remedy="call attend on the union of the graphs",
        )
    engine = engine_for(engine)
    return _with_lse(call, graph, _choose(call, graph, engine, lse=True).engine)


def explain_plan(
    query: Tensor, key: Tensor, value: Tensor, graph: Pattern, **options: Unpack[AttendOptions]
) -> Plan:
    """What :func:`attend` would run for these arguments: each engine's estimate, or its reasons.

    ``print`` it. For a union of patterns this is the plan for the whole; ``attend`` runs the parts
    on their best engines where that is estimated to be faster.
    """
    call, graph = checked_call(query, key, value, graph, **options)
    return plan(_problem(call, graph), ENGINES)


def aggregate(
    value: Tensor,
    graph: Pattern,
    *,
    weight: Tensor | None = None,
    reduce: Reduce = "sum",
    engine: str = "auto",
) -> Tensor:
    r"""Each target's sum, mean, max or min of :math:`\text{weight}_{ij} \cdot v_j`.

    Args:
        value: ``[..., N_src, H, D]``, or plain features ``[N_src, F]``.
        graph: who reads whom. A pattern is bound with as many targets as sources.
        weight: ``[E]``, or ``[..., E, H]`` for a weight a head.
        reduce: ``"mean"`` divides the weighted sum by the number of edges. Ties of an extreme
            share the gradient evenly.
        engine: ``"auto"`` chooses; a named engine runs or raises.

    Returns:
        ``[..., N_dst, H, D]`` (or ``[N_dst, F]``), zero for a target that reads nothing.

    """
    check_choice("reduce", reduce, get_args(Reduce))
    if isinstance(value, Tensor) and value.dim() == 2:
        return aggregate(value[:, None], graph, weight=weight, reduce=reduce, engine=engine)[:, 0]
    check_nodes(value=value)
    num_sources, heads, width = value.shape[-3:]
    num_targets = graph.num_targets if isinstance(graph, Graph) else num_sources
    graph = bind_graph(graph, num_targets, num_sources, value.device)
    if weight is not None:
        weight = weight[:, None] if weight.dim() == 1 else weight
        checked = checked_term("weight", weight, graph.num_edges, value)
        assert isinstance(checked, Tensor)
        weight = checked
    problem = Problem(
        operation="aggregate",
        batch=value.shape[:-3].numel(),
        heads=heads,
        width=0,
        value_width=width,
        device=value.device,
        dtype=value.dtype,
        reduce=reduce,
        **graph_facts(graph),
    )
    engine = engine_for(engine)
    chosen = ENGINES[choose(problem, ENGINES, engine).engine]
    return chosen.aggregate(value, weight, reduce, layout_of(graph, chosen.layout))


def _choose(call: AttentionCall, graph: Graph, engine: str, *, lse: bool = False) -> Choice:
    """The engine for a call; chosen once for all that are alike, as it takes a while."""
    # Sizes may be symbols, or an engine that is named may refuse; "auto" would be "reference".
    if is_tracing() or (engine != "auto" and in_functorch_transform()):
        return choose(_problem(call, graph, lse=lse), ENGINES, engine)
    alike = (
        engine,
        lse,
        call.query.dtype,
        call.query.shape,
        call.value.shape,
        call.batch,
        type(call.score),
        call.dropout > 0,
        type(call.bias),
        call.gain is None,
        call.edge_key is None and call.edge_value is None,
        call.normaliser is None,
    )
    chosen: dict[Any, Choice] = graph.cached("chosen", dict)
    return cached_choice(
        chosen, alike, lambda: choose(_problem(call, graph, lse=lse), ENGINES, engine)
    )


def _problem(call: AttentionCall, graph: Graph, *, lse: bool = False) -> Problem:
    return Problem(
        operation="attend",
        batch=call.batch.numel(),
        heads=call.query.shape[-2],
        width=call.query.shape[-1],
        value_width=call.value.shape[-1],
        device=call.query.device,
        dtype=call.query.dtype,
        score=call.score,
        bias=call.bias is not None,
        table=isinstance(call.bias, TableBias),
        offsets=isinstance(call.bias, OffsetBias),
        gain=call.gain is not None,
        edge_vectors=not (call.edge_key is None and call.edge_value is None),
        dropout=call.dropout,
        lse=lse,
        entmax=call.normaliser is not None,
        **graph_facts(graph),
    )


def _split(call: AttentionCall, graph: Graph) -> list[tuple[AttentionCall, Graph]]:
    """The call for shares of the graph that have no edge in common, with their edge tensors."""
    shares = execution_parts(graph)
    stops = list(itertools.accumulate(share.num_edges for share in shares))
    starts = [0, *stops[:-1]]
    return [
        (call.part(start, stop), share)
        for start, stop, share in zip(starts, stops, shares, strict=True)
    ]


def _with_lse(call: AttentionCall, graph: Graph, engine: str) -> tuple[Tensor, Tensor]:
    chosen = ENGINES[engine]
    if not chosen.grouped_heads:
        call = call.ungrouped()
    return chosen.attend_with_lse(call, layout_of(graph, chosen.layout))
