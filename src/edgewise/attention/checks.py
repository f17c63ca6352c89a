"""Checks of the optional arguments of :func:`edgewise.attend`.

The checks of every call are in ``attend.py``.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice, describe
from edgewise._utils.errors import ArgumentError
from edgewise._utils.torch_internals import in_functorch_transform, is_tracing
from edgewise.attention.biases import EdgeTerm, EdgeVector, Projected, TableBias
from edgewise.attention.normalisers import NORMALISERS, Entmax, Normaliser, alpha_out_of_range
from edgewise.attention.scores import Additive
from edgewise.engines.call import ACCUMULATORS


def in_autocast_dtype(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Convert to the dtype of autocast like PyTorch's attention; float64 is not converted."""
    nodes, device = (query, key, value), query.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):
        return nodes
    if any(x.dtype == torch.float64 for x in nodes):
        return nodes
    dtype = torch.get_autocast_dtype(device)
    return query.to(dtype), key.to(dtype), value.to(dtype)


def warn_of_heads_first(query: Tensor, key: Tensor) -> None:
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


def checked_normaliser(normaliser: Normaliser, query: Tensor) -> Entmax | None:
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
    _check_floats("normaliser.alpha", alpha, query)
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
    return Entmax(alpha.to(ACCUMULATORS[query.dtype]).expand(heads))


def checked_term(
    name: str, term: EdgeTerm | None, num_edges: int, nodes: Tensor
) -> EdgeTerm | None:
    """Check a bias, gain or weight of edges, and convert it to its dtype in ``ACCUMULATORS``."""
    if term is None:
        return None
    numbers = term.table if isinstance(term, TableBias) else term
    _check_floats(name, numbers, nodes)
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
    return term.to(ACCUMULATORS[nodes.dtype])


def checked_vector(
    name: str, vector: EdgeVector | None, num_edges: int, nodes: Tensor
) -> EdgeVector | None:
    """Check edge vectors, and convert them as biases unless all is 16-bit."""
    if vector is None:
        return None
    tensors = [vector] if isinstance(vector, Tensor) else [vector.features, vector.weight]
    if isinstance(vector, Projected):
        shape = (vector.features.shape[0], *vector.weight.shape[:2])
    else:
        shape = tuple(vector.shape[-3:])
    for tensor in tensors:
        _check_floats(name, tensor, nodes)
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
    return vector.to(ACCUMULATORS[nodes.dtype])


def common_batch(**arguments: Tensor | TableBias | Projected | None) -> torch.Size:
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


def check_additive(score: Additive, query: Tensor) -> None:
    """Raise ArgumentError unless the weight of the score fits the query."""
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
    if score.weight.device != query.device:
        raise _other_device("score.weight", score.weight, query)


def _check_floats(name: str, x: Tensor, nodes: Tensor) -> None:
    """Raise ArgumentError unless ``x`` has floats and is on the device of the nodes."""
    if not isinstance(x, Tensor) or not x.dtype.is_floating_point:
        raise ArgumentError(
            name,
            expected="a tensor of floats",
            got=describe(x),
            remedy=f"convert {name} with torch.as_tensor({name}).to(torch.float32)",
        )
    if x.device != nodes.device:
        raise _other_device(name, x, nodes)


def _other_device(name: str, x: Tensor, nodes: Tensor) -> ArgumentError:
    return ArgumentError(
        name,
        expected=f"a tensor on {nodes.device}, the device of the nodes",
        got=f"a tensor on {x.device}",
        remedy=f"move {name} with .to({str(nodes.device)!r})",
    )
