"""Positional encodings: where a node is. ``docs/encodings.md`` shows them all, with pictures.

Three kinds, by where the position enters: added to the features before the first layer, turned
into queries and keys, or added on the edges for the distance between their ends.
"""

from __future__ import annotations

from torch import nn

from edgewise.encodings.drawing import draw
from edgewise.encodings.index import Binary, ScaledIndex, binary_positions, scaled_positions
from edgewise.encodings.learned import Learned, Learned2d
from edgewise.encodings.positions import offsets, packed_positions
from edgewise.encodings.relative import ALiBi, Buckets, RelativeTable, Shaw, TransformerXL
from edgewise.encodings.rotary import Rotary, rotary_rates
from edgewise.encodings.sinusoidal import Sinusoidal, sinusoidal_positions

ADDED: dict[str, type[nn.Module]] = {
    "scaled": ScaledIndex,
    "binary": Binary,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "learned_2d": Learned2d,
}
"""``encoding(x [..., T, width], positions=None) -> [..., T, width]``."""

TURNED: dict[str, type[nn.Module]] = {"rotary": Rotary}
"""``encoding(x [..., T, H, D], positions=None) -> [..., T, H, D]``, for queries and keys."""

RELATIVE: dict[str, type[nn.Module]] = {
    "relative": RelativeTable,
    "buckets": Buckets,
    "alibi": ALiBi,
    "shaw": Shaw,
    "transformer_xl": TransformerXL,
}
"""``encoding(graph)``: terms for the graph's edges, as ``layer(x, graph, **encoding(graph))``."""

ENCODINGS: dict[str, type[nn.Module]] = {**ADDED, **TURNED, **RELATIVE}
"""Every encoding by name."""

__all__ = [
    "ADDED",
    "ENCODINGS",
    "RELATIVE",
    "TURNED",
    "ALiBi",
    "Binary",
    "Buckets",
    "Learned",
    "Learned2d",
    "RelativeTable",
    "Rotary",
    "ScaledIndex",
    "Shaw",
    "Sinusoidal",
    "TransformerXL",
    "binary_positions",
    "draw",
    "offsets",
    "packed_positions",
    "rotary_rates",
    "scaled_positions",
    "sinusoidal_positions",
]


def __dir__() -> list[str]:
    return __all__
