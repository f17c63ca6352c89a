"""Attention that each source receives: the sum of its weights over targets, in O(n) memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import is_dataclass, replace
from typing import Any, Unpack

import torch
from torch import Tensor

from edgewise._utils.dispatch_modes import detach_from_inference
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import AttendOptions, attend, checked_call
from edgewise.attention.hooks import without_interception
from edgewise.engines.call import AttentionCall
from edgewise.graphs import Graph, Pattern

GPU_WIDTH = 16
"""Width of the values on a GPU, the smallest that FlexAttention multiplies."""


def attention_received(
    query: Tensor,
    key: Tensor,
    graph: Pattern,
    *,
    engine: str = "auto",
    **options: Unpack[AttendOptions],
) -> Tensor:
    r"""Compute the attention that each source receives, :math:`r_j = \sum_i w_{ij}`.

    Use it to evict keys from a cache, or to rank tokens (heavy hitters). The result is that of
    summing :func:`edgewise.attention_weights` over targets, but the engines ``rows`` and ``tiles``
    store no weights: the memory is that of the arguments. It is differentiable once.

    Args:
        query: ``[..., N_dst, H, D]``.
        key: ``[..., N_src, H, D]``. The number of heads may also be a divisor of H.
        graph: the edges. A pattern (a graph for any number of nodes) is converted to the graph
            for the numbers of queries and keys.
        engine: as in :func:`edgewise.attend`.
        options: ``score``, ``bias``, ``gain``, ``edge_key`` and ``normaliser`` of
            :func:`edgewise.attend`.

    Returns:
        Sums of weights ``[..., N_src, H]`` in the dtype of the inputs, 0 for a source without
        edges. Over the sources of a graph, they add up to the number of targets with sources.

    Raises:
        ArgumentError: as in :func:`edgewise.attend`, or if gradients are recorded and ``score`` is
            a function with parameters, whose gradients are not computed.

    References:
        Zhang et al., H2O: heavy-hitter oracle for efficient generative inference, 2023.

    Example:
        >>> import torch, edgewise
        >>> query = key = torch.zeros(3, 1, 8)
        >>> edgewise.attention_received(query, key, edgewise.graphs.causal()).flatten()
        tensor([1.8333, 0.8333, 0.3333])
    """
    call, graph = checked_call(query, key, key, graph, **options)
    call = replace(call.ungrouped(), dropout=0.0, edge_value=None)
    tensors = list(_tensors(call))
    if torch.is_grad_enabled() and _has_parameters(call):
        raise ArgumentError(
            "score",
            expected="Dot, Additive, None or a function without parameters",
            got=f"{call.score!r}, to whose parameters attention_received has no gradient",
            remedy="call attention_received under torch.no_grad()",
        )
    received: Tensor = _Received.apply(call, graph, engine, *tensors)  # type: ignore[no-untyped-call]
    return received


class _Received(torch.autograd.Function):
    r"""The sum of weights over targets, as a gradient, and its own gradient.

    With values of 1, the gradient of :math:`\sum_i o_i` by :math:`v_j` is :math:`r_j`. For a
    gradient g of r, :math:`\sum_j g_j r_j = \sum_i o_i` with the values g.
    """

    @staticmethod
    def forward(
        ctx: Any, call: AttentionCall, graph: Graph, engine: str, *tensors: Tensor
    ) -> Tensor:
        ctx.call, ctx.graph, ctx.engine = call, graph, engine
        ctx.save_for_backward(*tensors)
        call = _map_tensors(call, lambda x: detach_from_inference(x.detach()))
        heads, width = call.key.shape[-2], 1 if call.key.device.type == "cpu" else GPU_WIDTH
        shape = (*call.batch, call.key.shape[-3], heads, width)
        with torch.inference_mode(False), torch.enable_grad():
            ones = torch.ones(
                shape, dtype=call.key.dtype, device=call.key.device, requires_grad=True
            )
            out = _attend(call, ones, graph, engine)
            (received,) = torch.autograd.grad(out, ones, torch.ones_like(out))
        return received[..., 0].contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        needs = ctx.needs_input_grad[3:]
        pairs = zip(ctx.saved_tensors, needs, strict=True)
        leaves = [x.detach().requires_grad_(need) for x, need in pairs]
        remaining = iter(leaves)
        call = _map_tensors(ctx.call, lambda _: next(remaining))
        with torch.enable_grad():
            out = _attend(call, grad[..., None], ctx.graph, ctx.engine)
            needed = [x for x in leaves if x.requires_grad]
            grads = iter(torch.autograd.grad(out.sum(), needed, allow_unused=True))
        return None, None, None, *(next(grads) if need else None for need in needs)


def _attend(call: AttentionCall, value: Tensor, graph: Graph, engine: str) -> Tensor:
    with without_interception():
        return attend(
            call.query,
            call.key,
            value,
            graph,
            score=call.score,
            bias=call.bias,
            gain=call.gain,
            edge_key=call.edge_key,
            normaliser=call.normaliser or "softmax",
            engine=engine,
        )


def _tensors(term: Any) -> Iterator[Tensor]:
    """Yield the floating-point tensors of a call or term, in the order of ``_map_tensors``."""
    if isinstance(term, Tensor) and term.is_floating_point():
        yield term
    elif is_dataclass(term) and not isinstance(term, type):
        for value in vars(term).values():
            yield from _tensors(value)


def _map_tensors(term: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Return a copy of a call or term with ``function`` of each of its floating-point tensors."""
    if isinstance(term, Tensor):
        return function(term) if term.is_floating_point() else term
    if not is_dataclass(term) or isinstance(term, type):
        return term
    mapped = copy(term)
    for name, value in vars(term).items():
        object.__setattr__(mapped, name, _map_tensors(value, function))
    return mapped


def _has_parameters(call: AttentionCall) -> bool:
    """Return whether the score is a function that uses tensors with gradients."""
    if call.score is None or is_dataclass(call.score):
        return False
    query, key = (x[..., :1, :, :].detach() for x in (call.query, call.key))
    return call.score(query, key).requires_grad
