"""``edgewise::rows_aggregate``: sums and extremes over the rows of a graph, with their gradients.

Values are ``[B, N_src, H, D]``, weights ``[B or 1, E, H]`` in the type of accumulation. A sum's
gradient for values is the sum over the transposed rows; an extreme's gradient is shared evenly by
the edges that reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from edgewise.engines import native
from edgewise.engines.csr import Prepared, prepared
from edgewise.engines.operands import accumulator, kernel_operator, rows_of, wants_gradient, watched

REDUCES = {"sum": 0, "mean": 1, "max": 2, "min": 3}
SCHEMA = "Tensor value, Tensor? weight, Tensor[] by_target, Tensor[] by_source, int reduce"


def _forward(
    value: Tensor,
    weight: Tensor | None,
    by_target: Sequence[Tensor],
    _by_source: Sequence[Tensor],
    reduce: int,
) -> Tensor:
    """``[B, N_dst, H, D]``; ``reduce`` is a value of ``REDUCES``."""
    side = prepared(by_target, value.shape[1])
    return _reduced(value, weight, side, by_target[0].shape[0] - 1, reduce)


rows_aggregate = kernel_operator(
    "rows_aggregate",
    _forward,
    schema=f"({SCHEMA}) -> Tensor",
)


@rows_aggregate.register_fake
def _fake(value: Tensor, _weight: Tensor | None, by_target: Sequence[Tensor], *_: Any) -> Tensor:
    return value.new_empty(value.shape[0], by_target[0].shape[0] - 1, *value.shape[2:])


def _run_backward(  # noqa: PLR0917 - the arguments of its operator
    grad: Tensor,
    out: Tensor,
    needs: Sequence[bool],
    value: Tensor,
    weight: Tensor | None,
    by_target: Sequence[Tensor],
    by_source: Sequence[Tensor],
    reduce: int,
) -> tuple[Tensor, Tensor]:
    """Gradients of values and weights, empty where they are not needed."""
    targets = grad.shape[1]
    target_side = prepared(by_target, value.shape[1])
    if reduce == REDUCES["mean"]:
        degree = by_target[0].diff().clamp(min=1).to(accumulator(value))
        grad = (grad / degree[:, None, None]).to(value.dtype)
    extreme = reduce in (REDUCES["max"], REDUCES["min"])
    weight_grad = torch.empty(0, dtype=accumulator(value), device="cpu")
    share = None
    if extreme:
        share = torch.empty(grad.shape, dtype=accumulator(value), device="cpu")
    if needs[1] or extreme:
        job = _Job(value, weight, target_side, reduce)
        job.args.grad_out, job.args.out = job.nodes(grad), job.nodes(out)
        job.args.share = native.address(share)
        if needs[1]:
            assert weight is not None
            shape = (value.shape[0], weight.shape[1], value.shape[2])
            weight_grad = torch.empty(shape, dtype=accumulator(value), device="cpu")
            job.args.weight_grad = weight_grad.data_ptr()
        native.call("ew_aggregate_grad_rows", job.args)
        if needs[1] and weight is not None and weight.shape[0] == 1:
            weight_grad = native.sum_copies(weight_grad)[None].clone()
    if not needs[0]:
        return torch.empty(0, dtype=value.dtype, device="cpu"), weight_grad
    source_side = prepared(by_source, targets)
    if not extreme:
        return _reduced(grad, weight, source_side, value.shape[1], REDUCES["sum"]), weight_grad
    job = _Job(value, weight, source_side, reduce)
    value_grad = torch.empty(value.shape, dtype=value.dtype, device="cpu")
    job.args.out, job.args.grad_value = job.nodes(out), native.nodes(value_grad)
    job.args.share = native.address(share)
    native.call("ew_aggregate_grad_columns", job.args)
    return value_grad, weight_grad


rows_aggregate_backward = kernel_operator(
    "rows_aggregate_backward",
    _run_backward,
    schema=f"(Tensor grad, Tensor out, bool[] needs, {SCHEMA}) -> (Tensor, Tensor)",
)


@rows_aggregate_backward.register_fake
def _fake_backward(
    _grad: Tensor,
    _out: Tensor,
    needs: Sequence[bool],
    value: Tensor,
    weight: Tensor | None,
    *_: Any,
) -> tuple[Tensor, Tensor]:
    like = [value, value.new_empty(0, dtype=accumulator(value)) if weight is None else weight]
    return tuple(  # type: ignore[return-value]
        x.new_empty(x.shape if need else 0) for x, need in zip(like, needs, strict=True)
    )


class _Job:
    """Arguments for the kernels; keeps alive every tensor whose address they hold."""

    def __init__(self, value: Tensor, weight: Tensor | None, side: Prepared, reduce: int) -> None:
        self.kept: list[Tensor] = []
        self.args = args = native.AggregateArgs()
        args.dtype, args.reduce = native.DTYPES[value.dtype], reduce
        args.batch, _, args.heads, args.width = value.shape
        args.side = side.pointer
        args.value = self.nodes(value)
        if weight is not None:
            weight = self.keep(weight.contiguous())
            args.weight = weight.data_ptr()
            args.weight_batch_stride = weight[0].numel() if weight.shape[0] > 1 else 0
        slots = (args.batch * side.side.slots, 2 * args.heads * args.width)
        args.slots = self.keep(
            torch.empty(slots, dtype=accumulator(value), device="cpu")
        ).data_ptr()

    def keep(self, x: Tensor) -> Tensor:
        self.kept.append(x)
        return x

    def nodes(self, x: Tensor) -> native.Nodes:
        return native.nodes(self.keep(rows_of(x)))


def _reduced(
    value: Tensor, weight: Tensor | None, side: Prepared, rows: int, reduce: int
) -> Tensor:
    """Reduce over the rows of either side."""
    job = _Job(value, weight, side, reduce)
    out = torch.empty(value.shape[0], rows, *value.shape[2:], dtype=value.dtype, device="cpu")
    job.args.out = native.nodes(out)
    native.call("ew_aggregate", job.args)
    return out


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    value, weight, by_target, by_source, reduce = inputs
    ctx.sides = (len(by_target), len(by_source))
    ctx.reduce = reduce
    ctx.save_for_backward(value, weight, output, *by_target, *by_source)


def _gradients(ctx: Any, run: Callable[..., tuple[Tensor, Tensor]], grad: Tensor) -> list[Any]:
    """The gradients of values and weights, by ``run``."""
    value, weight, out, *sides = ctx.saved_tensors
    by_target, by_source = sides[: ctx.sides[0]], sides[ctx.sides[0] :]
    needs = [bool(need) for need in ctx.needs_input_grad[:2]]
    grads = run(grad, out, needs, value, weight, by_target, by_source, ctx.reduce)
    return [grad if need else None for grad, need in zip(grads, needs, strict=True)]


def _backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    lists = ([None] * length for length in ctx.sides)  # autograd wants one a tensor
    grads = _gradients(ctx, torch.ops.edgewise.rows_aggregate_backward, grad)
    return (*grads, *lists, None)


rows_aggregate.register_autograd(_backward, setup_context=_setup)


class _Eager(torch.autograd.Function):
    """The same without the operator's bookkeeping, which takes longer than a small graph."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        output = _forward(*arguments)
        _setup(ctx, arguments, output)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """Once: for second derivatives there is the reference engine."""
        return (*_gradients(ctx, _run_backward, grad), None, None, None)


def run_aggregate(value: Tensor, weight: Tensor | None, *rest: Any) -> Tensor:
    """The operator while a compiler or a dispatch mode watches; directly otherwise."""
    if watched((value, weight)):
        return rows_aggregate(value, weight, *rest)  # type: ignore[no-any-return]
    if wants_gradient((value, weight)):
        return _Eager.apply(value, weight, *rest)  # type: ignore[no-any-return, no-untyped-call]
    return _forward(value, weight, *rest)
