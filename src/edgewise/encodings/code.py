"""The code of a graph that an encoding is given, checked before it is read."""

from __future__ import annotations

from torch import Tensor

from edgewise.arguments import described
from edgewise.errors import ArgumentError


def check_code(code: Tensor, *shape: int, argument: str = "positions") -> None:
    """Refuse a code of another shape.

    One of other nodes, or of an encoding that was made otherwise, may broadcast and be read.
    """
    if not isinstance(code, Tensor) or code.shape != shape:
        raise ArgumentError(
            argument,
            expected=f"a tensor of shape {list(shape)}, the encoding's code of this graph",
            got=described(code),
            remedy=f"compute it with model.encodings()['{argument}'].code(graph)",
        )
