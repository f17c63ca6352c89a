"""``edgewise::rows_attend``: the native kernels as a PyTorch operator, with its gradient.

Node tensors are ``[B, N, H, D]``. Edge terms are ``[B or 1, E, H or 1]``, or a table
``[1, classes, H or 1]`` with an index; edge vectors ``[B or 1, E, H, D]``, or features ``[E, F]``
with a weight ``[H, D, F]``. Terms, features and weights come in the type of accumulation: float32,
or float64 for float64. Only inputs, output and the softmax's two numbers a row and head are saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from edgewise.engines import native
from edgewise.engines.call import accumulator
from edgewise.engines.operands import differentiable_once, kernel_operator, wants_gradient, watched
from edgewise.engines.rows_call import (
    DIFFERENTIABLE,
    REST,
    TENSORS,
    Call,
    Inputs,
    run_backward,
)


def _fake_attend(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    x = Inputs(*arguments)
    batch, rows, _, heads, width = x.sizes
    dtype = accumulator(x.value)
    return (
        x.value.new_empty(batch, rows, heads, width),
        x.value.new_empty(batch, rows, heads, dtype=dtype),
        x.value.new_empty(batch, rows, 2, heads, dtype=dtype),
    )


def _forward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Output, log-sum-exp, and greatest score and sum of exponentials ``[B, N_dst, 2, H]``."""
    x = Inputs(*arguments)
    out, lse, stats = _fake_attend(*arguments)
    call = Call(x)
    call.args.out = native.nodes(out)
    call.args.lse, call.args.stats = lse.data_ptr(), stats.data_ptr()
    call.slots(call.side)
    native.call("ew_attend", call.args)
    return out, lse, stats


rows_attend = kernel_operator(
    "rows_attend",
    _forward,
    schema=f"({TENSORS}, {REST}) -> (Tensor, Tensor, Tensor)",
)
rows_attend.register_fake(_fake_attend)


def _run_backward(
    grad_out: Tensor,
    grad_lse: Tensor | None,
    out: Tensor,
    stats: Tensor,
    needs: Sequence[bool],
    *arguments: Any,
) -> list[Tensor]:
    """One gradient for each name in ``DIFFERENTIABLE``, empty where it is not needed."""
    call = Call(Inputs(*arguments))
    args = call.args
    args.grad_out, args.out = call.nodes(grad_out), call.nodes(out)
    args.stats, args.grad_lse = call.address(stats), call.address(grad_lse)
    return run_backward(call, needs)


rows_attend_backward = kernel_operator(
    "rows_attend_backward",
    _run_backward,
    schema="(Tensor grad_out, Tensor? grad_lse, Tensor out, Tensor stats, bool[] needs, "
    f"{TENSORS}, {REST}) -> Tensor[]",
)


@rows_attend_backward.register_fake
def _fake_backward(
    _grad_out: Tensor,
    _grad_lse: Tensor | None,
    _out: Tensor,
    _stats: Tensor,
    needs: Sequence[bool],
    *arguments: Any,
) -> list[Tensor]:
    return backward_shapes(needs, *arguments)


def backward_shapes(needs: Sequence[bool], *arguments: Any) -> list[Tensor]:
    """What a backward operator returns, without the numbers."""
    x = Inputs(*arguments)
    return [
        torch.empty_like(getattr(x, name), memory_format=torch.contiguous_format)
        if need
        else x.value.new_empty(0)
        for name, need in zip(DIFFERENTIABLE, needs, strict=True)
    ]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x = Inputs(*inputs)
    ctx.set_materialize_grads(False)
    out, _, stats = output
    ctx.save_for_backward(
        *inputs[: len(DIFFERENTIABLE)],
        x.bias_index,
        x.gain_index,
        *x.by_target,
        *x.by_source,
        out,
        stats,
    )
    ctx.sides = (len(x.by_target), len(x.by_source))
    ctx.numbers = inputs[Inputs._fields.index("score") :]


def _gradients(
    ctx: Any, run: Callable[..., list[Tensor]], grad_out: Tensor | None, grad_lse: Tensor | None
) -> tuple[Any, ...]:
    """The gradients of the differentiable arguments, by ``run``."""
    first = len(DIFFERENTIABLE) + 2
    saved = ctx.saved_tensors
    middle = first + ctx.sides[0]
    *_, out, stats = saved
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    needs = [bool(need) for need in ctx.needs_input_grad[: len(DIFFERENTIABLE)]]
    sides = (list(saved[first:middle]), list(saved[middle:-2]))
    grads = run(grad_out, grad_lse, out, stats, needs, *saved[:first], *sides, *ctx.numbers)
    return tuple(grad if need else None for grad, need in zip(grads, needs, strict=True))


def _backward(
    ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None, _: Tensor | None
) -> tuple[Any, ...]:
    grads = _gradients(ctx, torch.ops.edgewise.rows_attend_backward, grad_out, grad_lse)
    lists = ([None] * length for length in ctx.sides)  # autograd wants one a tensor
    return (*grads, None, None, *lists, *(None for _ in ctx.numbers))


rows_attend.register_autograd(_backward, setup_context=_setup)


class _Eager(torch.autograd.Function):
    """The same without the operator's bookkeeping, which takes longer than a small graph."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        output = _forward(*arguments)
        _setup(ctx, arguments, output)
        ctx.mark_non_differentiable(output[2])
        return output

    @staticmethod
    @differentiable_once
    def backward(
        ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None, _: Tensor | None
    ) -> tuple[Any, ...]:
        grads = _gradients(ctx, _run_backward, grad_out, grad_lse)
        return (*grads, *(None for _ in range(len(Inputs._fields) - len(grads))))


def run_attend(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The operator while a compiler or a dispatch mode watches; directly otherwise."""
    if watched(arguments[: len(DIFFERENTIABLE)]):
        return rows_attend(*arguments)  # type: ignore[no-any-return]
    if wants_gradient(arguments[: len(DIFFERENTIABLE)]):
        return _Eager.apply(*arguments)  # type: ignore[no-any-return, no-untyped-call]
    return _forward(*arguments)
