"""Check of the shape of precomputed codes, the results of ``encoding.code(graph)``."""

from __future__ import annotations

from torch import Tensor

from edgewise.arguments import describe
from edgewise.errors import ArgumentError


def check_code(code: Tensor, *shape: int, argument: str = "positions") -> None:
    """Raise ArgumentError if ``code`` is not a tensor of this shape.

    Without the check, the code of another graph could broadcast silently.
    """
    if not isinstance(code, Tensor) or code.shape != shape:
        raise ArgumentError(
            argument,
            expected=f"a tensor of shape {list(shape)}, the code of this graph",
            got=describe(code),
            remedy=f"compute {argument} with model.encodings()['{argument}'].code(graph)",
        )
