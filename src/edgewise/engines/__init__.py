"""Engines, which are implementations of attention over a graph; ``plan.py`` chooses one."""

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
"""Dict from engine names to engines."""

EDGE_ENGINES: tuple[EdgeEngine[Any], ...] = (ROWS, REFERENCE)
"""Engines that compute the scores and weights of edges, ``[E, H]``.

The first one that supports a call is used.
"""

__all__ = ["EDGE_ENGINES", "ENGINES", "REFERENCE", "ROWS", "EdgeEngine", "Engine"]
