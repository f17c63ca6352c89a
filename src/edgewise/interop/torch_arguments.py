"""Checks of the arguments that PyTorch's attention functions have in common."""

from __future__ import annotations

from torch import Tensor

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import check_nodes


def check_dims(dims: int, expected: str, remedy: str, **nodes: Tensor) -> None:
    """Raise ArgumentError unless each argument is a float tensor with this number of axes."""
    check_nodes(**nodes)
    for name, x in nodes.items():
        if x.dim() != dims:
            raise ArgumentError(name, expected=expected, got=describe(x), remedy=remedy)


def check_gqa(heads: int, key_heads: int, *, enable_gqa: bool) -> None:
    """Raise ArgumentError if query heads share key heads without ``enable_gqa``."""
    if heads != key_heads and not enable_gqa:
        raise ArgumentError(
            "key",
            expected=f"{heads} heads, as in query",
            got=str(key_heads),
            remedy="pass enable_gqa=True if query heads share key heads",
        )
