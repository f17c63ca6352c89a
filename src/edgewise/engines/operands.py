"""What the native engines make of tensors before a kernel sees them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def flat(x: Tensor, batch: torch.Size) -> Tensor:
    """``[..., N, H, D]`` as ``[B, N, H, D]``, broadcast to these leading dimensions."""
    if x.shape[:-3] != batch:
        x = x.expand(*batch, *x.shape[-3:])
    if len(batch) == 1:
        return x
    return x.flatten(0, -4) if batch else x[None]


def rows_of(x: Tensor) -> Tensor:
    """The same tensor with dense heads, copied only if need be."""
    *_, head, step = x.stride()
    heads, width = x.shape[-2:]
    dense = (step == 1 or width == 1) and (head == width or heads == 1)
    return x if dense else x.contiguous()


def accumulator(x: Tensor) -> torch.dtype:
    """The type in which sums are held."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def watched() -> bool:
    """Whether calls must go through PyTorch's dispatcher to be seen."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def wants_gradient(tensors: Iterable[Tensor | None]) -> bool:
    """Whether autograd records a call with these arguments."""
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
