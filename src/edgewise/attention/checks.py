"""Checks that the tensors and the graph of one call of :func:`edgewise.attend` fit each other.

Checks of a single argument are in ``arguments.py``.
"""

from __future__ import annotations

import warnings
from typing import Literal, get_args

import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice, check_range, describe
from edgewise._utils.errors import ArgumentError
from edgewise._utils.torch_internals import in_functorch_transform, is_tracing
from edgewise.attention.biases import EdgeTerm, EdgeVector, Projected, TableBias
from edgewise.attention.normalisers import NORMALISERS, Entmax, Normaliser, alpha_out_of_range
from edgewise.attention.scores import DOT, Additive, Dot, Score
from edgewise.engines.call import AttentionCall, accumulator, for_each_query
from edgewise.graphs import Graph, Pattern, check_graph

NodeLayout = Literal["NHD", "HND"]
"""Order of the axes N (nodes), H (heads) and D (width of a head). PyTorch's attention uses HND."""

NO_BATCH = torch.Size()
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def bind_graph(graph: Pattern, num_targets: int, num_sources: int, device: torch.device) -> Graph:
    """Return the graph with these numbers of nodes, on this device; a pattern is bound to them."""
    if (
        isinstance(graph, Graph)
        and graph.num_targets == num_targets
        and graph.num_sources == num_sources
        and graph.device == device
    ):
        return graph
    return check_graph(graph).bind(num_targets, num_sources).to(device)


def bind_to_nodes(graph: Pattern, x: Tensor) -> Graph:
    """Return a graph whose sources and targets are both the nodes of x ``[..., N, width]``."""
    if x.dim() < 2:
        raise ArgumentError(
            "x",
            expected="features of nodes [..., N, width]",
            got=describe(x),
            remedy="give a single node as x[None]",
        )
    return bind_graph(graph, x.shape[-2], x.shape[-2], x.device)


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


def in_autocast_dtype(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Convert to the dtype of autocast like PyTorch's attention; float64 is not converted."""
    nodes, device = (query, key, value), query.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):
        return nodes
    if any(x.dtype == torch.float64 for x in nodes):
        return nodes
    dtype = torch.get_autocast_dtype(device)
    return query.to(dtype), key.to(dtype), value.to(dtype)


def _warn_of_heads_first(query: Tensor, key: Tensor) -> None:
    """Warn if the shapes look like ``[B, H, N, D]``, where H would be taken as the node count."""
    if query.dim() < 4:
        return
    nodes, heads = query.shape[-3:-1]
    if nodes == key.shape[-3] and heads > max(16, 2 * nodes):
        warnings.warn(
            f"query {list(query.shape)} is read as [..., nodes, heads, width], with {heads} heads. "
            "Pass layout='HND' if the heads come first, as in PyTorch's "
            "scaled_dot_product_attention, or layout='NHD' to say that this is meant.",
            stacklevel=4,  # The warning points at the caller of attend.
        )


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
    if layout is not None:
        check_choice("layout", layout, get_args(NodeLayout))
    elif not isinstance(graph, Graph):
        _warn_of_heads_first(query, key)
    if layout == "HND":
        query, key, value = (x.transpose(-3, -2) for x in (query, key, value))
    if not query.dtype == key.dtype == value.dtype:
        query, key, value = in_autocast_dtype(query, key, value)
    graph = bind_graph(graph, query.shape[-3], key.shape[-3], query.device)
    _check_together(query, key, value, score)
    if isinstance(score, Additive):
        _check_additive(score, query)
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
        batch = _batch(
            query=query,
            key=key,
            value=value,
            bias=bias,
            gain=gain,
            edge_key=edge_key,
            edge_value=edge_value,
        )
    seed = int(torch.randint(2**62, (), device="cpu")) if dropout > 0 else 0
    entmax = None if normaliser == "softmax" else _checked_normaliser(normaliser, query)
    if not bare:
        edges = graph.num_edges
        bias, gain = (
            checked_term("bias", bias, edges, query),
            checked_term("gain", gain, edges, query),
        )
        edge_key = _checked_vector("edge_key", edge_key, edges, query)
        edge_value = _checked_vector("edge_value", edge_value, edges, value)
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


def _checked_normaliser(normaliser: Normaliser, query: Tensor) -> Entmax | None:
    """Return None for softmax, or ``Entmax`` with a number or a tensor ``[H]``."""
    if isinstance(normaliser, str):
        check_choice("normaliser", normaliser, NORMALISERS)
        return NORMALISERS[normaliser]
    if not isinstance(normaliser, Entmax):
        raise ArgumentError(
            "normaliser",
            expected=f"one of {', '.join(NORMALISERS)}, or Entmax(alpha)",
            got=describe(normaliser),
            remedy="choose a normaliser of edgewise.attention.normalisers",
        )
    alpha = normaliser.alpha
    if not isinstance(alpha, Tensor):
        return None if alpha == 1 else normaliser
    _check_floats("normaliser.alpha", alpha)
    _same_device("normaliser.alpha", alpha, query)
    heads = query.shape[-2]
    if tuple(alpha.shape) not in ((heads,), (1,), ()):
        raise ArgumentError(
            "normaliser.alpha",
            expected=f"shape [{heads}], one number per head, or a single number",
            got=f"shape {list(alpha.shape)}",
            remedy="pass one number for each head of the query",
        )
    plain = not (is_tracing((alpha,)) or in_functorch_transform() or alpha.is_meta)
    if plain and not bool(((alpha >= 1) & (alpha <= 2)).all()):
        raise alpha_out_of_range(f"from {float(alpha.min()):g} to {float(alpha.max()):g}")
    return Entmax(alpha.to(accumulator(query)).expand(heads))


def checked_term(
    name: str, term: EdgeTerm | None, num_edges: int, nodes: Tensor
) -> EdgeTerm | None:
    """Check a bias, gain or weight of edges, and convert it to :func:`accumulator`'s dtype."""
    if term is None:
        return None
    numbers = term.table if isinstance(term, TableBias) else term
    _check_floats(name, numbers)
    shape = term.shape
    heads = nodes.shape[-2]
    if len(shape) < 2 or shape[-2] != num_edges or shape[-1] not in (1, heads):
        raise ArgumentError(
            name,
            expected=f"shape [..., {num_edges}, {heads}] or [..., {num_edges}, 1] (edges, heads)",
            got=f"shape {list(shape)}",
            remedy="give one row per edge, in the order of graph.edge_index, and one column per "
            "head, or a single column",
        )
    _same_device(name, numbers, nodes)
    return term.to(accumulator(nodes))


def _checked_vector(
    name: str, vector: EdgeVector | None, num_edges: int, nodes: Tensor
) -> EdgeVector | None:
    """Check edge vectors, and convert them to :func:`accumulator`'s dtype unless all is 16-bit."""
    if vector is None:
        return None
    tensors = [vector] if isinstance(vector, Tensor) else [vector.features, vector.weight]
    if isinstance(vector, Projected):
        shape = (vector.features.shape[0], *vector.weight.shape[:2])
    else:
        shape = tuple(vector.shape[-3:])
    for tensor in tensors:
        _check_floats(name, tensor)
        _same_device(name, tensor, nodes)
    heads, width = nodes.shape[-2:]
    if shape != (num_edges, heads, width):
        raise ArgumentError(
            name,
            expected=f"shape [{num_edges}, {heads}, {width}] (edges, heads, width)",
            got=f"shape {list(shape)}",
            remedy="give one vector per edge and head, edges in the order of graph.edge_index",
        )
    if isinstance(vector, Tensor) and max(vector.dtype.itemsize, nodes.dtype.itemsize) <= 2:
        return vector
    return vector.to(accumulator(nodes))


def _batch(**arguments: Tensor | TableBias | Projected | None) -> torch.Size:
    """Return the batch shape, to which the leading dimensions of all arguments broadcast."""
    dims = {"bias": 2, "gain": 2}
    batches = {
        name: x.shape[: -dims.get(name, 3)]
        for name, x in arguments.items()
        if isinstance(x, Tensor)
    }
    first, *others = batches.values()
    # Compare the shapes first, because broadcast_shapes takes as long as a small attention call.
    if all(other == first for other in others):
        return first
    try:
        batch: torch.Size = torch.broadcast_shapes(first, *others)
    except RuntimeError as error:
        raise ArgumentError(
            ", ".join(batches),
            expected="leading batch dimensions that broadcast",
            got=", ".join(f"{name} {list(batch)}" for name, batch in batches.items()),
            remedy="pass equal batch dimensions, before [nodes, heads, width] or [edges, heads]",
        ) from error
    return batch


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


def _check_additive(score: Additive, query: Tensor) -> None:
    heads, width = query.shape[-2:]
    if score.weight is None and width != 1:
        raise ArgumentError(
            "score",
            expected=f"Additive with a weight of shape [{heads}, {width}]",
            got="no weight",
            remedy="pass score=Additive(weight); only heads of width 1 (as in GAT) need no weight",
        )
    if score.weight is None:
        return
    if tuple(score.weight.shape) != (heads, width):
        raise ArgumentError(
            "score.weight",
            expected=f"shape [{heads}, {width}] (heads and width of the query)",
            got=f"shape {list(score.weight.shape)}",
            remedy="give one vector per head",
        )
    _same_device("score.weight", score.weight, query)


def _check_floats(name: str, x: Tensor) -> None:
    if not isinstance(x, Tensor) or not x.dtype.is_floating_point:
        raise ArgumentError(
            name,
            expected="a tensor of floats",
            got=describe(x),
            remedy=f"convert {name} with torch.as_tensor({name}).to(torch.float32)",
        )


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


def _same_device(name: str, x: Tensor, nodes: Tensor) -> None:
    if x.device != nodes.device:
        raise ArgumentError(
            name,
            expected=f"a tensor on {nodes.device}, the device of the nodes",
            got=f"a tensor on {x.device}",
            remedy=f"move {name} with .to({str(nodes.device)!r})",
        )
