"""Base class of encodings with a precomputed code, and a check of the shape of such codes."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError


class GraphEncoding(nn.Module):
    """Base class of encodings whose numbers ``code(graph)`` can be computed once per data set."""

    of_pairs: bool = False
    """Whether the codes are of pairs of nodes."""
    compares_graphs: bool = False
    """Whether codes of graphs are comparable only if they are computed in one call."""
    settings: tuple[int, ...] = ()
    """Parameters of ``code``, which are part of the key under which its result is cached."""


def check_code(code: Tensor, *shape: int, argument: str = "positions") -> None:
    """Raise ArgumentError if ``code`` has another shape, which could broadcast silently."""
    if not isinstance(code, Tensor) or code.shape != shape:
        raise ArgumentError(
            argument,
            expected=f"a tensor of shape {list(shape)}, the code of this graph",
            got=describe(code),
            remedy=f"compute {argument} with model.encodings()['{argument}'].code(graph)",
        )
