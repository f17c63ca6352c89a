"""Encodings: where a node is. Each is added to the features before the first layer."""

from __future__ import annotations

from torch import nn

from edgewise.encodings.learned import Learned
from edgewise.encodings.sinusoidal import Sinusoidal, sinusoidal_positions

ENCODINGS: dict[str, type[nn.Module]] = {"learned": Learned, "sinusoidal": Sinusoidal}
"""Every encoding by name."""

__all__ = ["ENCODINGS", "Learned", "Sinusoidal", "sinusoidal_positions"]
