"""Position encodings of text models, chosen by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import nn

from edgewise._utils.arguments import check_choice
from edgewise.encodings.index import Binary, RawIndex, ScaledIndex
from edgewise.encodings.learned import Learned
from edgewise.encodings.relative import ALiBi, Buckets, RelativeTable, Shaw, TransformerXLRelative
from edgewise.encodings.rotary import Rotary
from edgewise.encodings.sinusoidal import Sinusoidal


class TextPositions(NamedTuple):
    """Position encodings of a text model, by the place where they are applied.

    Attributes:
        added: encoding that is added to the embeddings, or None.
        rotary: encoding that rotates queries and keys in every layer, or None.
        relative: encoding that adds terms to the edges in every layer, or None.

    Example:
        >>> from edgewise import encodings
        >>> encodings.text_positions("rotary", width=64, heads=4, max_length=512).added is None
        True
    """

    added: nn.Module | None = None
    rotary: nn.Module | None = None
    relative: nn.Module | None = None


class Sizes(NamedTuple):
    """Sizes of a model that determine the sizes of its position encoding."""

    width: int
    heads: int
    max_length: int


TEXT_POSITIONS: dict[str, Callable[[Sizes], TextPositions]] = {
    "none": lambda _: TextPositions(),
    "index": lambda n: TextPositions(added=RawIndex(n.width)),
    "scaled": lambda n: TextPositions(added=ScaledIndex(n.width)),
    "binary": lambda n: TextPositions(added=Binary(n.width, (n.max_length - 1).bit_length())),
    "learned": lambda n: TextPositions(added=Learned(n.max_length, n.width)),
    "sinusoidal": lambda n: TextPositions(added=Sinusoidal(n.width)),
    "rotary": lambda n: TextPositions(rotary=Rotary(n.width // n.heads)),
    "relative": lambda n: TextPositions(relative=RelativeTable(n.heads)),
    "buckets": lambda n: TextPositions(relative=Buckets(n.heads)),
    "alibi": lambda n: TextPositions(relative=ALiBi(n.heads)),
    "shaw": lambda n: TextPositions(relative=Shaw(n.heads, n.width // n.heads)),
    "transformer_xl": lambda n: TextPositions(
        relative=TransformerXLRelative(n.heads, n.width // n.heads)
    ),
}
"""Functions that create the position encodings of a text model, by name of the encoding.

All layers of a model share one relative encoding."""


def text_positions(name: str, *, width: int, heads: int, max_length: int) -> TextPositions:
    """Return new position encodings for a text model, by a name of :data:`TEXT_POSITIONS`.

    Args:
        max_length: max number of positions, for the encodings "learned" and "binary" only.

    Raises:
        ArgumentError: the name is unknown.

    Example:
        >>> from edgewise import encodings
        >>> encodings.text_positions("rotary", width=32, heads=4, max_length=64)
        TextPositions(added=None, rotary=Rotary(), relative=None)
    """
    check_choice("positions", name, TEXT_POSITIONS)
    return TEXT_POSITIONS[name](Sizes(width, heads, max_length))
