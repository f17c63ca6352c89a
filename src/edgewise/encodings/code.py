"""Check of the shape of precomputed encodings, the results of ``encoding.code(graph)``."""

from __future__ import annotations

from torch import Tensor

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError


def check_code(code: Tensor, *shape: int, argument: str = "positions") -> None:
    """Raise ArgumentError if ``code`` has another shape, which could broadcast silently."""
    if not isinstance(code, Tensor) or code.shape != shape:
        raise ArgumentError(
            argument,
            expected=f"a tensor of shape {list(shape)}, the code of this graph",
            got=describe(code),
            remedy=f"compute {argument} with model.encodings()['{argument}'].code(graph)",
        )
