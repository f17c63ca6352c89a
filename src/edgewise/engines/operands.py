"""What the native engines make of tensors before a kernel sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from edgewise.engines import native
from edgewise.engines.csr import LARGEST

if TYPE_CHECKING:
    from torch._library.custom_ops import CustomOpDef

    from edgewise.engines.call import Problem

PLAIN = (Tensor, Parameter)
"""Tensors that hold their numbers themselves."""


NO_SECOND_DERIVATIVE = (
    "The kernels give first derivatives alone. For second derivatives run the forward pass with "
    'edgewise.using_engine("reference"), which has them.'
)


def kernel_operator(name: str, run: Callable[..., Any], *, schema: str) -> CustomOpDef:
    """An operator of PyTorch's for a function that runs a kernel."""
    name = f"edgewise::{name}"
    return torch.library.custom_op(name, run, mutates_args=(), device_types="cpu", schema=schema)


def flat(x: Tensor, batch: torch.Size) -> Tensor:
    """``[..., N, H, D]`` as ``[B, N, H, D]``, broadcast to these leading dimensions."""
    if x.shape[:-3] != batch:
        x = x.expand(*batch, *x.shape[-3:])
    if len(batch) == 1:
        return x
    return x.flatten(0, -4) if batch else x[None]


def rows_of(x: Tensor) -> Tensor:
    """The same tensor with dense heads, copied only if need be."""
    if x.is_neg():  # a view whose sign is not in its memory
        x = x.resolve_neg()
    *_, head, step = x.stride()
    heads, width = x.shape[-2:]
    dense = (step == 1 or width == 1) and (head == width or heads == 1)
    return x if dense else x.contiguous()


def watched(tensors: Iterable[Tensor | None] = ()) -> bool:
    """Whether calls with these tensors must go through PyTorch's dispatcher to be seen."""
    return (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None
        or any(x is not None and type(x) not in PLAIN for x in tensors)
    )


def transformed() -> bool:
    """Whether ``torch.func`` or forward-mode derivatives look on, which see into no kernel."""
    if torch.compiler.is_compiling():
        return False
    return (
        torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
    )


def differentiable_once(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward pass whose gradients say, when they are differentiated, what has derivatives."""

    @wraps(backward)
    def run(ctx: Any, *grads: Tensor | None) -> Any:
        with torch.no_grad():
            given = backward(ctx, *grads)
        if not torch.is_grad_enabled():  # create_graph=False: nobody can
            return given
        reached = (*grads, *ctx.saved_tensors)
        return _FirstDerivatives.apply(len(given), *given, *reached)  # type: ignore[no-untyped-call]

    return run


class _FirstDerivatives(torch.autograd.Function):
    """Gradients, connected with what they depend on so that autograd comes by to be refused."""

    @staticmethod
    def forward(_ctx: Any, count: int, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        return tuple(x if x is None else x.detach() for x in tensors[:count])

    @staticmethod
    def backward(_ctx: Any, *_grads: Tensor | None) -> None:
        raise RuntimeError(NO_SECOND_DERIVATIVE)


def wants_gradient(tensors: Iterable[Tensor | None]) -> bool:
    """Whether autograd records a call with these arguments."""
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def refusals(problem: Problem, largest: int) -> list[str]:
    """What keeps every kernel from serving a problem in which this is the largest number."""
    reasons = []
    if problem.device.type != "cpu":
        reasons.append(f"its kernels run on the CPU, not on {problem.device.type}")
    if problem.dtype not in native.DTYPES:
        reasons.append(f"it has no kernels for {problem.dtype}")
    if largest >= LARGEST:
        reasons.append("it counts edges and nodes in 32 bits")
    if not problem.value_width:
        reasons.append("values of width 0 have no place in memory")
    if transformed():
        reasons.append("torch.func and forward-mode derivatives do not see into its kernels")
    if native.MISSING:
        reasons.append(native.MISSING)
    return reasons
