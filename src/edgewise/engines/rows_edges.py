"""``edgewise::rows_scores`` and ``edgewise::rows_softmax``: the edge tensors of the rows engine.

Layers that need the steps apart (MAGNA diffuses the same weights several times) get scores and
weights ``[B, E, H]`` in the caller's edge order, in the type of accumulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from edgewise.engines import native
from edgewise.engines.call import accumulator
from edgewise.engines.csr import prepared
from edgewise.engines.rows_call import (
    DIFFERENTIABLE,
    REST,
    TENSORS,
    Call,
    Inputs,
    run_backward,
)
from edgewise.engines.rows_ops import backward_shapes

SIDES = (len(DIFFERENTIABLE) + 2, len(DIFFERENTIABLE) + 3)


@torch.library.custom_op(
    "edgewise::rows_scores",
    mutates_args=(),
    device_types="cpu",
    schema=f"({TENSORS}, {REST}) -> Tensor",
)
def rows_scores(*arguments: Any) -> Tensor:
    """Scores ``[B, E, H]``: score · gain + bias."""
    call = Call(Inputs(*arguments))
    out: Tensor = _fake_scores(*arguments)
    call.args.scores = out.data_ptr()
    native.call("ew_edge_scores", call.args)
    return out


@rows_scores.register_fake
def _fake_scores(*arguments: Any) -> Tensor:
    x = Inputs(*arguments)
    batch, _, edges, heads, _ = x.sizes
    return x.value.new_empty(batch, edges, heads, dtype=accumulator(x.value))


@torch.library.custom_op(
    "edgewise::rows_scores_backward",
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor grad, bool[] needs, {TENSORS}, {REST}) -> Tensor[]",
)
def rows_scores_backward(grad: Tensor, needs: Sequence[bool], *arguments: Any) -> list[Tensor]:
    """One gradient for each name in ``DIFFERENTIABLE``, empty where it is not needed."""
    call = Call(Inputs(*arguments))
    call.args.scores = call.address(grad)
    return run_backward(call, needs)


@rows_scores_backward.register_fake
def _fake_backward(_grad: Tensor, needs: Sequence[bool], *arguments: Any) -> list[Tensor]:
    return backward_shapes(needs, *arguments)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001 - by name
    x = Inputs(*inputs)
    ctx.save_for_backward(*inputs[: SIDES[0]], *x.by_target, *x.by_source)
    ctx.sides = (len(x.by_target), len(x.by_source))
    ctx.numbers = inputs[SIDES[1] + 1 :]


def _backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    saved = ctx.saved_tensors
    middle = SIDES[0] + ctx.sides[0]
    sides = (list(saved[SIDES[0] : middle]), list(saved[middle:]))
    needs = [bool(need) for need in ctx.needs_input_grad[: len(DIFFERENTIABLE)]]
    needs[DIFFERENTIABLE.index("value")] = False  # values only lend their shape
    arguments = (*saved[: SIDES[0]], *sides, *ctx.numbers)
    grads = torch.ops.edgewise.rows_scores_backward(grad, needs, *arguments)
    given = [grad if need else None for grad, need in zip(grads, needs, strict=True)]
    lists = [[None] * length for length in ctx.sides]  # autograd wants one a tensor
    return (*given, None, None, *lists, *(None for _ in ctx.numbers))


rows_scores.register_autograd(_backward, setup_context=_setup)


@torch.library.custom_op(
    "edgewise::rows_softmax",
    mutates_args=(),
    device_types="cpu",
    schema="(Tensor scores, Tensor? grad, Tensor[] by_target, int columns) -> Tensor",
)
def rows_softmax(
    scores: Tensor, grad: Tensor | None, by_target: Sequence[Tensor], columns: int
) -> Tensor:
    """Softmax over each row of ``[B, E, H]``; with ``grad``, its gradient (scores are weights)."""
    side = prepared(by_target, columns)
    batch, _, heads = scores.shape
    scores, grad = scores.contiguous(), None if grad is None else grad.contiguous()
    out = torch.empty_like(scores)
    stats = scores.new_empty(batch, side.side.rows, 2, heads)
    slots = scores.new_empty(batch, side.side.slots, 2, heads)
    args = native.SoftmaxArgs(dtype=native.DTYPES[scores.dtype], batch=batch, heads=heads)
    args.side = side.pointer
    args.scores, args.grad, args.out = scores.data_ptr(), native.address(grad), out.data_ptr()
    args.stats, args.slots = stats.data_ptr(), slots.data_ptr()
    native.call("ew_softmax", args)
    return out


@rows_softmax.register_fake
def _fake_softmax(scores: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


def _setup_softmax(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, _, by_target, ctx.columns = inputs
    ctx.save_for_backward(output, *by_target)


def _softmax_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    weights, *by_target = ctx.saved_tensors
    out = torch.ops.edgewise.rows_softmax(weights, grad, by_target, ctx.columns)
    return out, None, [None] * len(by_target), None


rows_softmax.register_autograd(_softmax_backward, setup_context=_setup_softmax)
