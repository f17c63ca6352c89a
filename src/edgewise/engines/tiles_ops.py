"""``edgewise::tiles_attend``: the kernels for runs of sources as a PyTorch operator.

Node tensors are ``[B, N, H, D]``. Inputs, output and the softmax's two numbers a row and head are
saved for the backward pass, which computes the weights again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from edgewise.engines import native
from edgewise.engines.call import accumulator
from edgewise.engines.operands import (
    differentiable_once,
    kernel_operator,
    rows_of,
    wants_gradient,
    watched,
)

ARGUMENTS = (
    "Tensor query, Tensor key, Tensor value, Tensor[] layout, float scale, float dropout, "
    "int seed, int first_edge"
)
NOWHERE = (0, 0, 0)
Outputs = tuple[Tensor, Tensor, Tensor]


def _outputs(query: Tensor, _key: Tensor, value: Tensor, *rest: Any) -> Outputs:
    """Output, log-sum-exp, and greatest score and 1 / sum ``[B, N_dst, 2, H]``, to be filled.

    The second is empty where it is not wanted.
    """
    batch, rows, heads, _ = query.shape
    *_, lse = rest
    like = query if accumulator(query) == query.dtype else query.new_empty(0, dtype=torch.float32)
    return (
        query.new_empty(batch, rows, heads, value.shape[-1]),
        like.new_empty(batch, rows, heads) if lse else like.new_empty(0),
        like.new_empty(batch, rows, 2, heads),
    )


def _forward(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Outputs:
    out, lse, stats = _outputs(query, key, value, *rest)
    nodes = query, key, value, out, None, None, None, None
    *options, wanted = rest
    _run("ew_tiles", nodes, (lse if wanted else None, stats, None), *options)
    return out, lse, stats


def _gradients(
    _grad_out: Tensor,
    _grad_lse: Tensor | None,
    _out: Tensor,
    _stats: Tensor,
    needs: Sequence[bool],
    *arguments: Any,
) -> list[Tensor]:
    """The gradients of query, key and value, to be filled; empty where one is not needed."""
    nodes = zip(arguments[:3], needs, strict=True)
    return [x.new_empty(x.shape if need else 0) for x, need in nodes]


def _backward(
    grad_out: Tensor,
    grad_lse: Tensor | None,
    out: Tensor,
    stats: Tensor,
    needs: Sequence[bool],
    *arguments: Any,
) -> list[Tensor]:
    grads = _gradients(grad_out, grad_lse, out, stats, needs, *arguments)
    wanted = [grad if need else None for grad, need in zip(grads, needs, strict=True)]
    _fill(wanted, (grad_out, grad_lse, out, stats), *arguments)
    return grads


def _fill(
    grads: Iterable[Tensor | None],
    results: tuple[Tensor, Tensor | None, Tensor, Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *rest: Any,
) -> None:
    """Compute the gradients of query, key and value that there is room for."""
    grad_out, grad_lse, out, stats = results
    if grad_lse is not None:
        grad_lse = grad_lse.contiguous()
    nodes = query, key, value, out, grad_out, *grads
    _run("ew_tiles_grad", nodes, (None, stats, grad_lse), *rest)


def _run(
    name: str,
    nodes: tuple[Tensor | None, ...],
    numbers: tuple[Tensor | None, ...],
    layout: Sequence[Tensor],
    *options: float,
) -> None:
    """Run a kernel on query, key, value, output and the gradients of output, query, key, value.

    Args:
        name: of the exported function.
        nodes: those.
        numbers: log-sum-exp, statistics and the gradient of the former.
        layout: the tensors of a ``TilesLayout``.
        options: scale, dropout, seed and the number of the first edge.
    """
    query, _, value = nodes[:3]
    assert query is not None
    assert value is not None
    batch, rows, heads, width = query.shape
    kept: list[Tensor] = []  # what must live as long as its address is in use
    places: list[int] = []
    for x in nodes:
        if x is None:
            places += NOWHERE
            continue
        kept.append(x := rows_of(x))
        member, node, _, _ = x.stride()
        places += x.data_ptr(), member, node
    packed = native.TILES_ARGS.pack(
        native.TILES_ARGS.size,
        native.DTYPES[query.dtype],
        torch.get_num_threads(),
        *(batch, heads, width, value.shape[-1], rows, value.shape[1]),
        *(layout[-2].shape[0] - 1, layout[-1].shape[0] - 1),
        *[x.data_ptr() for x in layout],
        *options,
        *places,
        *[0 if x is None else x.data_ptr() for x in numbers],
    )
    native.run(name, packed)


tiles_attend = kernel_operator(
    "tiles_attend",
    _forward,
    schema=f"({ARGUMENTS}, bool lse) -> (Tensor, Tensor, Tensor)",
)
tiles_attend.register_fake(_outputs)

tiles_attend_backward = kernel_operator(
    "tiles_attend_backward",
    _backward,
    schema="(Tensor grad_out, Tensor? grad_lse, Tensor out, Tensor stats, bool[] needs, "
    f"{ARGUMENTS}) -> Tensor[]",
)
tiles_attend_backward.register_fake(_gradients)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
    query, key, value, layout, *numbers, _lse = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(query, key, value, output[0], output[2], *layout)
    ctx.numbers = numbers


def _operator_backward(
    ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None, _: Tensor | None
) -> tuple[Any, ...]:
    query, key, value, out, stats, *layout = ctx.saved_tensors
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    needs = ctx.needs_input_grad[:3]
    arguments = query, key, value, layout, *ctx.numbers
    run = torch.ops.edgewise.tiles_attend_backward
    grads = run(grad_out, grad_lse, out, stats, needs, *arguments)
    wanted = (grad if need else None for grad, need in zip(grads, needs, strict=True))
    return *wanted, [None] * 5, None, None, None, None, None  # autograd wants one a tensor


tiles_attend.register_autograd(_operator_backward, setup_context=_save)


class _Eager(torch.autograd.Function):
    """The same without the operator's bookkeeping, which takes longer than a short sequence.

    Query, key and value come one by one, or in one tensor ``[B, N, 3, H, D]``.
    """

    @staticmethod
    def forward(ctx: Any, layout: list[Tensor], numbers: Any, *nodes: Tensor) -> Any:
        out, lse, stats = _forward(*_parts(nodes), layout, *numbers)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(out, stats, *nodes)
        ctx.rest = layout, *numbers[:-1]
        return out, lse

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None) -> Any:
        out, stats, *nodes = ctx.saved_tensors
        if grad_out is None:
            grad_out = torch.zeros_like(out)
        needs = ctx.needs_input_grad[2:]
        grads = [
            x.new_empty(x.shape) if need else None for x, need in zip(nodes, needs, strict=True)
        ]
        _fill(_parts(grads), (grad_out, grad_lse, out, stats), *_parts(nodes), *ctx.rest)
        return None, None, *grads


def _parts(nodes: Sequence[Any]) -> Sequence[Any]:
    return nodes if len(nodes) == 3 else nodes[0].unbind(2)


def run_attend(layout: list[Tensor], numbers: Any, *nodes: Tensor) -> tuple[Tensor, Tensor]:
    """The operator while a compiler or a dispatch mode watches; directly otherwise.

    Args:
        layout: the tensors of a ``TilesLayout``.
        numbers: scale, dropout, seed, number of the first edge, and whether the log-sum-exp is
            wanted, which is empty otherwise.
        nodes: query, key and value, or one tensor of the three.
    """
    if watched(nodes):
        return tiles_attend(*_parts(nodes), layout, *numbers)[:2]  # type: ignore[no-any-return]
    if wants_gradient(nodes):
        return _Eager.apply(layout, numbers, *nodes)  # type: ignore[no-any-return, no-untyped-call]
    return _forward(*_parts(nodes), layout, *numbers)[:2]
