"""Engines: how attention over a graph is computed.

``attention.py`` and ``edge_steps.py`` choose between them.
"""

from __future__ import annotations

from typing import Any

from edgewise.engines.dense import Dense
from edgewise.engines.plan import EdgeEngine, Engine
from edgewise.engines.reference import REFERENCE
from edgewise.engines.rows import Rows
from edgewise.engines.tiles import Tiles
from edgewise.engines.torch_version import warn_if_untested

warn_if_untested()

ROWS = Rows()

ENGINES: dict[str, Engine[Any]] = {
    "dense": Dense(),
    "reference": REFERENCE,
    "rows": ROWS,
    "tiles": Tiles(),
}
"""Every engine by name."""

EDGE_ENGINES: tuple[EdgeEngine[Any], ...] = (ROWS, REFERENCE)
"""What computes edge tensors (scores and weights ``[E, H]``): the first that can."""

__all__ = ["EDGE_ENGINES", "ENGINES", "REFERENCE", "ROWS", "EdgeEngine", "Engine"]
