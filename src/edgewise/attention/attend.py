r"""Attention over a graph: the one primitive of the library.

For each target i and head h, with softmax and sum over the sources :math:`j \in N(i)` of i:

.. math::
    s_{ij} = \mathrm{score}(q_i, k_j) \cdot \mathrm{gain}_{ij} + \mathrm{bias}_{ij}, \qquad
    w_{ij} = \mathrm{softmax}_j(s_{ij}), \qquad
    o_i = \sum_j w_{ij} v_j

α-entmax (:mod:`edgewise.attention.normalisers`) can replace softmax.

``edge_index[0]`` is the source j and ``edge_index[1]`` the target i. Tensors with one entry per
edge are in the order of ``graph.edge_index``. For a target without sources, the output and its
gradients are zero. Every differentiable argument has a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, TypedDict, Unpack, get_args

import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice, check_range, describe
from edgewise._utils.errors import ArgumentError
from edgewise._utils.torch_internals import in_functorch_transform, is_tracing
from edgewise.attention.biases import EdgeTerm, EdgeVector, OffsetBias, TableBias
from edgewise.attention.checks import (
    check_additive,
    checked_normaliser,
    checked_term,
    checked_vector,
    common_batch,
    in_autocast_dtype,
    warn_of_heads_first,
)
from edgewise.attention.hooks import ACTIVE, intercepted, is_intercepted
from edgewise.attention.normalisers import Normaliser
from edgewise.attention.scores import DOT, Additive, Dot, Score
from edgewise.engines import ENGINES
from edgewise.engines.call import (
    AttentionCall,
    Problem,
    can_read,
    exceeds_lse,
    for_each_query,
    without_autocast,
)
from edgewise.engines.costs import costs_on
from edgewise.engines.layouts import MAKERS, execution_parts, graph_facts, layout_of
from edgewise.engines.merge import merge_attention, merge_work
from edgewise.engines.plan import Choice, Plan, choose, plan
from edgewise.engines.reference import EdgeLayout, expand, largest_scores
from edgewise.graphs import Graph, Pattern
from edgewise.graphs.graph import bind_graph

Reduce = Literal["sum", "mean", "max", "min"]
NodeLayout = Literal["NHD", "HND"]
"""Order of the axes N (nodes), H (heads) and D (width of a head). PyTorch's attention uses HND."""

NO_BATCH = torch.Size()
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

_preferred: ContextVar[str] = ContextVar("engine", default="auto")


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
    r"""Compute attention of every target over its sources.

    For target i, sources j of its edges, and each head:

    .. math:: s_{ij} = \mathrm{score}(q_i, k_j) \cdot g_{ij} + b_{ij}, \qquad
              w_{ij} = \mathrm{softmax}_j(s_{ij}), \qquad o_i = \sum_j w_{ij} v_j

    Here g is ``gain`` and b is ``bias``. A target without sources gets zeros.

    Args:
        query: ``[..., N_dst, H, D]``. All examples along the batch axes ``...`` share one graph.
            To batch graphs of different sizes, concatenate their nodes along the node axis and pack
            their graphs with :func:`edgewise.graphs.batch`.
        key: ``[..., N_src, H, D]``. The number of heads may also be a divisor of H (grouped-query
            attention).
        value: ``[..., N_src, H, Dv]``, with as many heads as the key.
        graph: the edges from sources to targets. A pattern (a graph for any number of nodes, such
            as ``causal()``) is converted to the graph for the numbers of queries and keys. For a
            graph that is divided among processes, see :func:`edgewise.distributed.partition`.
        score: ``Dot()``, ``Additive(...)``, a callable ``(query, key) -> score``, or ``None`` for
            scores of 0, to which the bias is added.
        bias: added to the score: ``[..., E, H]`` for E edges and H heads, ``[..., E, 1]``, a
            ``TableBias`` or an ``OffsetBias``. A bias of -inf masks an edge: its weight is 0. A
            target whose edges are all masked gets zeros.
        gain: factor of the score, in the same forms as ``bias``. A gain has no effect if ``score``
            is ``None``.
        edge_key: added to the key on each edge: ``[..., E, H, D]`` or ``Projected``.
        edge_value: added to the value on each edge: ``[..., E, H, Dv]`` or ``Projected``.
        dropout: probability of setting a weight to 0. The others are divided by 1 - ``dropout``.
        normaliser: ``"softmax"``, ``"sparsemax"``, ``"entmax"`` (α = 1.5) or ``Entmax(alpha)``. A
            tensor ``alpha`` has one number for each head.
        layout: ``"NHD"`` for nodes before heads, as above, or ``"HND"`` for ``[..., H, N, D]`` in
            query, key, value and output, as in PyTorch's and Hugging Face's attention. Defaults to
            ``"NHD"`` and warns if the shapes look like ``"HND"``.
        engine: ``"auto"`` for the engine with the lowest estimated time, or the name of an engine.

    Returns:
        ``[..., N_dst, H, Dv]``, in the dtype of the inputs.

    Raises:
        ArgumentError: if shapes, heads, dtypes or devices do not match, if the length of an edge
            tensor is not the number of edges, if the pattern cannot be bound to these sizes, or if
            the named engine does not support the call.

    Notes:
        NaN and infinity follow IEEE arithmetic on each edge of the graph, on every engine: 0 times
        NaN is NaN. A NaN in a query, a key or a score makes the output of the target NaN. A NaN or
        an infinity in a value makes the output of every target with an edge from that source NaN or
        infinite, even if the weight underflows to 0, is dropped, or is masked by a bias of -inf. A
        pair that is not an edge contributes nothing. To exclude a source with NaN, remove its
        edges. There are three exceptions, in which NaN and infinity may also reach targets without
        an edge from the source: ``dense`` and ``tiles`` on a GPU, ``dense`` in compiled code, and
        ``dense`` in the backward pass if the gradient of the output is not finite.

        Attention is computed in the dtype of its inputs, also under ``torch.autocast``. If autocast
        has left query, key and value in different dtypes, they are converted to the dtype of
        autocast. The engines ``reference``, ``rows`` and ``tiles`` accumulate sums over 16-bit
        numbers in float32.

        A finite bias, however large, is a number: score and bias are added in float32, or in
        float64 for float64 inputs, on every engine. In float32, biases of -1e9 on all edges of a
        target leave no digit of its scores, so its sources have equal weights, as in PyTorch's
        attention; biases of -inf on all its edges give zeros. There is one exception: ``dense`` on
        a GPU or in compiled code subtracts the largest bias of a target before the addition, which
        keeps the scores.

    References:
        Vaswani et al., Attention is all you need, 2017 (``Dot``, the complete graph).
        Veličković et al., Graph attention networks, 2018 (``Additive``, any graph).

    Example:
        >>> import torch, edgewise
        >>> query = key = value = torch.randn(10, 4, 8)  # nodes, heads, width of a head
        >>> edgewise.attend(query, key, value, edgewise.graphs.window(2)).shape
        torch.Size([10, 4, 8])
    """
    out: Tensor
    # A graph that is divided among processes, of edgewise.distributed.
    divided = getattr(graph, "attend", None)
    terms: AttendOptions = {
        "score": score,
        "bias": bias,
        "gain": gain,
        "edge_key": edge_key,
        "edge_value": edge_value,
        "dropout": dropout,
        "normaliser": normaliser,
    }
    if divided is not None:
        out = divided(query, key, value, layout=layout, engine=engine, **terms)
        return out
    call, graph = checked_call(query, key, value, graph, layout, **terms)
    engine = engine_for(engine)
    # The test of is_intercepted, inlined because every call passes here.
    if not torch.compiler.is_compiling() and ACTIVE.get():
        out = intercepted("attend", lambda call, graph: _attend(call, graph, engine), call, graph)
    else:
        out = _attend(call, graph, engine)
    return out.transpose(-3, -2) if layout == "HND" else out


def checked_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: Pattern,
    layout: NodeLayout | None = "NHD",
    /,
    *,
    score: Score = DOT,
    bias: EdgeTerm | None = None,
    gain: EdgeTerm | None = None,
    edge_key: EdgeVector | None = None,
    edge_value: EdgeVector | None = None,
    dropout: float = 0.0,
    normaliser: Normaliser = "softmax",
) -> tuple[AttentionCall, Graph]:
    """Check the arguments of ``attend``; return them as an ``AttentionCall``, and the bound graph.

    For any ``layout``, the returned tensors have nodes before heads. With dropout, the call gets a
    seed from PyTorch's random generator.
    """
    check_nodes(query=query, key=key, value=value)
    if layout == "HND":
        query, key, value = (x.transpose(-3, -2) for x in (query, key, value))
    elif layout is None:
        if not isinstance(graph, Graph):
            warn_of_heads_first(query, key)
    elif layout != "NHD":
        check_choice("layout", layout, get_args(NodeLayout))
    if not query.dtype == key.dtype == value.dtype:
        query, key, value = in_autocast_dtype(query, key, value)
    graph = bind_graph(graph, query.shape[-3], key.shape[-3], query.device)
    _check_together(query, key, value, score)
    if isinstance(score, Additive):
        check_additive(score, query)
    elif not (isinstance(score, Dot) or score is None or callable(score)):
        raise ArgumentError(
            "score",
            expected="Dot(), Additive(...), a callable (query, key) -> score, or None",
            got=repr(score),
            remedy="choose a score of edgewise.attention.scores",
        )
    if dropout:
        check_range(
            "dropout",
            dropout,
            "choose for example 0.1 in training, and 0.0 otherwise",
            least=0,
            most=1,
        )
    bare = bias is None and gain is None and edge_key is None and edge_value is None
    # Edge vectors have one entry per query head, so grouped keys and values are repeated.
    if not (edge_key is None and edge_value is None):
        key, value = for_each_query(query, key), for_each_query(query, value)
    alone = query.dim() == key.dim() == value.dim() == 3
    batch = NO_BATCH if alone else query.shape[:-3]
    if not (bare and (alone or key.shape[:-3] == value.shape[:-3] == batch)):
        batch = common_batch(
            query=query,
            key=key,
            value=value,
            bias=bias,
            gain=gain,
            edge_key=edge_key,
            edge_value=edge_value,
        )
    seed = int(torch.randint(2**62, (), device="cpu")) if dropout > 0 else 0
    entmax = None if normaliser == "softmax" else checked_normaliser(normaliser, query)
    if not bare:
        edges = graph.num_edges
        bias, gain = (
            checked_term("bias", bias, edges, query),
            checked_term("gain", gain, edges, query),
        )
        edge_key = checked_vector("edge_key", edge_key, edges, query)
        edge_value = checked_vector("edge_value", edge_value, edges, value)
        if score is None:  # The gain multiplies the score; without a score it has no effect.
            gain = None
    call = AttentionCall(
        query,
        key,
        value,
        batch,
        score,
        bias,
        gain,
        edge_key,
        edge_value,
        dropout,
        seed,
        normaliser=entmax,
    )
    return call, graph


def check_nodes(**nodes: Tensor) -> None:
    """Raise ArgumentError unless each argument is a float tensor ``[..., N, H, D]``."""
    for name, x in nodes.items():
        if not isinstance(x, Tensor) or x.dim() < 3 or x.dtype not in DTYPES:
            raise ArgumentError(
                name,
                expected="floats of 16, 32 or 64 bits and shape [..., N, H, D] (nodes, heads, "
                "width of a head)",
                got=describe(x),
                remedy="split the width into heads with .unflatten(-1, (H, D)); H may be 1",
            )


def _check_together(query: Tensor, key: Tensor, value: Tensor, score: Score) -> None:
    """Raise ArgumentError unless heads, sources, width, dtype and device match."""
    shape, key_shape, value_shape = query.shape, key.shape, value.shape
    heads, width, sources = shape[-2], shape[-1], key_shape[-3]
    if (
        key_shape[-2] == value_shape[-2]
        and (key_shape[-2] == heads or (key_shape[-2] and heads % key_shape[-2] == 0))
        and value_shape[-3] == sources
        and key.dtype == value.dtype == query.dtype
        and key.device == value.device == query.device
        and (score is None or key_shape[-1] == width)
    ):
        return
    if not key.shape[-2] or heads % key.shape[-2]:
        raise ArgumentError(
            "key",
            expected=f"as many heads as query, {heads}, or a divisor of {heads}",
            got=str(key.shape[-2]),
            remedy="check the order of the axes: [..., nodes, heads, width]",
        )
    _same("value", value.shape[-2], key.shape[-2], "heads", "key")
    _same("value", value.shape[-3], sources, "sources", "key")
    _same_type(query, "key", key)
    _same_type(query, "value", value)
    _same("key", key.shape[-1], width, "features per head", "query")


def _same(name: str, got: int, expected: int, what: str, other: str) -> None:
    if got != expected:
        raise ArgumentError(
            name,
            expected=f"as many {what} as {other}, {expected}",
            got=str(got),
            remedy="check the order of the axes: [..., nodes, heads, width]",
        )


def _same_type(query: Tensor, name: str, other: Tensor) -> None:
    if other.dtype != query.dtype or other.device != query.device:
        raise ArgumentError(
            name,
            expected=f"{query.dtype} on {query.device}, as in query",
            got=f"{other.dtype} on {other.device}",
            remedy=f"convert {name} with .to(query)",
        )


def engine_for(engine: str) -> str:
    """Return the engine for a call: for ``"auto"``, the one set by :func:`using_engine`, if any.

    Under ``torch.func`` and forward-mode differentiation, ``"auto"`` becomes ``"reference"``.
    """
    if engine == "auto" and in_functorch_transform():
        return "reference"
    if engine != "auto" or torch.compiler.is_compiling():  # Dynamo cannot trace a ContextVar.
        return engine
    return _preferred.get()


@contextmanager
def using_engine(engine: str) -> Iterator[None]:
    """Run all calls with ``engine="auto"`` in this ``with`` block on the engine of this name.

    Use it to compare engines or to debug, as in
    ``with edgewise.using_engine("reference"): model(x, graph)``. Code compiled with
    ``torch.compile`` ignores it.

    Example:
        >>> import torch, edgewise as ew
        >>> from edgewise import graphs
        >>> x = torch.randn(5, 2, 4)
        >>> with ew.using_engine("reference"):
        ...     out = ew.attend(x, x, x, graphs.window(1))
        >>> torch.allclose(out, ew.attend(x, x, x, graphs.window(1)), atol=1e-5)
        True
    """
    token = _preferred.set(engine)
    try:
        yield
    finally:
        _preferred.reset(token)


def _attend(call: AttentionCall, graph: Graph, engine: str) -> Tensor:
    device = call.query.device.type
    # The condition is tested here, which saves a function call if autocast is off.
    if device != "meta" and torch.is_autocast_enabled(device):
        with without_autocast(call.query.device):
            return _attend(call, graph, engine)
    choice = _choose(_fields(call, graph), graph, engine)
    # The number of parts is tested here, which saves a function call for most graphs.
    if engine == "auto" and len(graph.parts) > 1:
        subcalls = _faster_parts(call, graph, choice)
        if subcalls:
            return merge_attention([_with_lse(*subcall) for subcall in subcalls])[0]
    chosen = ENGINES[choice.engine]
    if not chosen.grouped_heads and call.key.shape[-2] != call.query.shape[-2]:
        call = call.ungrouped()
    # The same as layout_of, without a function call.
    return chosen.attend(call, graph.derived(MAKERS[chosen.layout]))


class AttendOptions(TypedDict, total=False):
    """Type of those keyword arguments of :func:`attend` that related functions also accept."""

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
    """Compute :func:`attend` and the log-sum-exp of the scores.

    :func:`merge_attention` combines the results for disjoint graphs into attention over their
    union. Query, key and value may be projected differently for each graph.

    Returns:
        The output of :func:`attend` and the log-sum-exp ``[..., N_dst, H]``, which is -inf for a
        target without sources.

    Raises:
        ArgumentError: as in :func:`attend`, or if ``normaliser`` is not softmax.

    Example:
        >>> import torch, edgewise
        >>> query = key = value = torch.randn(10, 4, 8)  # nodes, heads, width of a head
        >>> out, lse = edgewise.attend_with_lse(query, key, value, edgewise.graphs.window(1))
        >>> out.shape, lse.shape
        (torch.Size([10, 4, 8]), torch.Size([10, 4]))
    """
    call, graph = checked_call(query, key, value, graph, **options)
    if call.normaliser is not None:
        raise ArgumentError(
            "normaliser",
            expected="softmax, because other normalisers have no log-sum-exp",
            got=repr(options["normaliser"]),
            remedy='set normaliser="softmax"; for another normaliser, call attend once, on the '
            "union of the graphs: graph_a | graph_b",
        )
    engine = engine_for(engine)

    def compute(call: AttentionCall, graph: Graph) -> tuple[Tensor, Tensor]:
        return _with_lse(call, graph, _choose(_fields(call, graph, lse=True), graph, engine))

    if is_intercepted():
        out, lse = intercepted("attend_with_lse", compute, call, graph)
        return out, lse
    return compute(call, graph)


def explain_plan(
    query: Tensor, key: Tensor, value: Tensor, graph: Pattern, **options: Unpack[AttendOptions]
) -> Plan:
    """Return the estimated time of each engine for a call of :func:`attend`.

    The printed result is a table of engines. For an engine that does not support the call, the
    table gives the reason. :func:`attend` computes the parts of a union of patterns separately and
    merges the results if this is estimated to be faster than one pass. The table then also lists
    each part with its engine.

    Example:
        >>> import torch, edgewise
        >>> x = torch.randn(1024, 8, 64)
        >>> print(edgewise.explain_plan(x, x, x, edgewise.graphs.window(64)))  # doctest: +SKIP
        -> tiles      about 38.4 ms
           rows       about 76.6 ms
           dense      about 143 ms
           reference  about 455 ms
    """
    call, graph = checked_call(query, key, value, graph, **options)
    problem = _problem(call, graph)._replace(duplicates=graph.has_duplicates)
    single_pass = plan(problem, ENGINES)
    subcalls = _faster_parts(call, graph, single_pass.choices[0])
    return replace(single_pass, parts=tuple((repr(g), choice) for _, g, choice in subcalls))


def aggregate(
    value: Tensor,
    graph: Pattern,
    *,
    weight: Tensor | None = None,
    reduce: Reduce = "sum",
    engine: str = "auto",
) -> Tensor:
    r"""Reduce :math:`\text{weight}_{ij} \cdot v_j` over the sources j of each target i.

    Args:
        value: ``[..., N_src, H, D]``, or plain features ``[N_src, F]``.
        graph: the edges. A pattern (a graph for any number of nodes) is converted to the graph
            with N_src sources and as many targets.
        weight: weight of each edge, ``[E]``, or of each edge and head, ``[..., E, H]``. Defaults to
            1.
        reduce: ``"sum"``, ``"mean"`` (the weighted sum divided by the number of edges), ``"max"``
            or ``"min"``. Equal maxima or minima share the gradient evenly.
        engine: as in :func:`attend`, which also describes how NaN, infinity and autocast are
            treated.

    Returns:
        ``[..., N_dst, H, D]`` (or ``[N_dst, F]``), 0 for a target without sources.

    Example:
        >>> import torch, edgewise
        >>> x = torch.tensor([[1.0], [2.0], [3.0]])
        >>> edgewise.aggregate(x, edgewise.graphs.window(1), reduce="mean")
        tensor([[1.5000],
                [2.0000],
                [2.5000]])
    """
    divided = getattr(graph, "aggregate", None)  # As in attend.
    if divided is not None:
        out: Tensor = divided(value, weight=weight, reduce=reduce, engine=engine)
        return out
    check_choice("reduce", reduce, get_args(Reduce))
    if isinstance(value, Tensor) and value.dim() == 2:
        return aggregate(value[:, None], graph, weight=weight, reduce=reduce, engine=engine)[:, 0]
    check_nodes(value=value)
    num_sources = value.shape[-3]
    num_targets = graph.num_targets if isinstance(graph, Graph) else num_sources
    graph = bind_graph(graph, num_targets, num_sources, value.device)
    if weight is not None:
        weight = weight[:, None] if isinstance(weight, Tensor) and weight.dim() == 1 else weight
        checked = checked_term("weight", weight, graph.num_edges, value)
        assert isinstance(checked, Tensor)
        weight = checked
    if not torch.compiler.is_compiling() and ACTIVE.get():  # As in attend.

        def compute(value: Tensor, weight: Tensor | None, graph: Graph, reduce: Reduce) -> Tensor:
            return _aggregate(value, weight, graph, reduce, engine)

        out = intercepted("aggregate", compute, value, weight, graph, reduce)
        return out
    return _aggregate(value, weight, graph, reduce, engine)


def _aggregate(
    value: Tensor, weight: Tensor | None, graph: Graph, reduce: Reduce, engine: str
) -> Tensor:
    device = value.device.type
    if device != "meta" and torch.is_autocast_enabled(device):  # As in _attend.
        with without_autocast(value.device):
            return _aggregate(value, weight, graph, reduce, engine)
    heads, width = value.shape[-2:]
    problem = Problem(
        *graph.derived(graph_facts),
        operation="aggregate",
        batch=value.shape[:-3].numel(),
        heads=heads,
        width=0,
        value_width=width,
        device=value.device,
        dtype=value.dtype,
        reduce=reduce,
    )
    chosen = ENGINES[_choose(problem, graph, engine_for(engine)).engine]
    return chosen.aggregate(value, weight, reduce, graph.derived(MAKERS[chosen.layout]))


@lru_cache(maxsize=1024)
def cached_choice(fields: tuple[Any, ...], engine: str) -> Choice | None:
    """Return :func:`choose`, computed once for all calls and graphs with the same properties."""
    return choose(Problem(*fields), ENGINES, engine)


def _choose(fields: tuple[Any, ...], graph: Graph, engine: str = "auto") -> Choice:
    """Choose the engine for a call; raise ArgumentError if the named engine does not support it.

    ``fields`` are those of a ``Problem``.
    """
    # Do not cache the choice while compiling, because sizes may be symbols, or under torch.func,
    # where few engines work.
    if is_tracing() or (engine != "auto" and in_functorch_transform()):
        choice = choose(Problem(*fields), ENGINES, engine)
    else:
        choice = cached_choice(fields, engine)
    # Duplicates take long to find, and matter only to "dense" and to the text of an error.
    if choice is None or (choice.engine == "dense" and graph.has_duplicates):
        problem = Problem(*fields)._replace(duplicates=graph.has_duplicates)
        return choose(problem, ENGINES, engine) or plan(problem, ENGINES, engine).choices[0]
    return choice


def _problem(call: AttentionCall, graph: Graph, *, lse: bool = False) -> Problem:
    return Problem(*_fields(call, graph, lse=lse))


def _fields(call: AttentionCall, graph: Graph, *, lse: bool = False) -> tuple[Any, ...]:
    """Return the fields of :func:`_problem`, without the 2 µs that a named tuple takes."""
    query, bias = call.query, call.bias
    heads, width = query.shape[-2:]
    return (
        *graph.derived(graph_facts),
        "attend",
        call.batch.numel(),
        heads,
        width,
        call.value.shape[-1],
        query.device,
        query.dtype,
        type(call.score),
        bias is not None,
        isinstance(bias, TableBias),
        isinstance(bias, OffsetBias),
        call.gain is not None,
        not (call.edge_key is None and call.edge_value is None),
        call.dropout > 0,
        lse,
        call.normaliser is not None,
    )


def _faster_parts(
    call: AttentionCall, graph: Graph, single_pass: Choice
) -> list[tuple[AttentionCall, Graph, Choice]]:
    """Return call, graph and engine of each part of a union; [] if a single pass is faster."""
    # A single pass of ``tiles`` was always faster than computing parts and merging them. Merging
    # needs the log-sum-exp, which only softmax has.
    if len(graph.parts) == 1 or single_pass.engine == "tiles" or call.normaliser is not None:
        return []
    if loses_lse(call, graph):
        return []
    subcalls = [
        (subcall, subgraph, _choose(_fields(subcall, subgraph, lse=True), subgraph))
        for subcall, subgraph in _split(call, graph)
    ]
    width = call.query.shape[-2] * call.value.shape[-1]
    elements = call.batch.numel() * graph.num_targets * width
    costs = costs_on(call.query.device, call.query.dtype)
    (merging,) = costs.of([merge_work(len(subcalls), elements)])
    total = merging + sum(choice.seconds for *_, choice in subcalls)
    return subcalls if total < single_pass.seconds else []


def _split(call: AttentionCall, graph: Graph) -> Iterator[tuple[AttentionCall, Graph]]:
    """Yield the call and the graph of each part of a union of disjoint graphs."""
    start = 0
    for subgraph in execution_parts(graph):
        stop = start + subgraph.num_edges
        yield call.part(start, stop), subgraph
        start = stop


def loses_lse(call: AttentionCall, graph: Graph) -> bool:
    """Return whether :func:`exceeds_lse`; False on a GPU and in compiled code."""
    bias = call.bias
    if bias is None:
        return False
    numbers = bias.table if isinstance(bias, TableBias) else bias
    # The largest bias of each target takes longer to compute than a bound for it.
    if not can_read(call.query, numbers) or not exceeds_lse(numbers):
        return False
    return exceeds_lse(largest_scores(expand(bias), layout_of(graph, EdgeLayout)))


def _with_lse(call: AttentionCall, graph: Graph, choice: Choice) -> tuple[Tensor, Tensor]:
    engine = ENGINES[choice.engine]
    if not engine.grouped_heads:
        call = call.ungrouped()
    with without_autocast(call.query.device):
        return engine.attend_with_lse(call, layout_of(graph, engine.layout))
