"""Engines: how attention over a graph is computed. ``attention.py`` alone chooses between them."""

from __future__ import annotations

from typing import Any

from edgewise.engines.dense import Dense
from edgewise.engines.plan import Engine
from edgewise.engines.reference import Reference
from edgewise.engines.rows import Rows

EDGE_ENGINE = Reference()
"""What computes edge tensors (scores and weights ``[E, H]``)."""

ENGINES: dict[str, Engine[Any]] = {
    "dense": Dense(),
    "reference": EDGE_ENGINE,
    "rows": Rows(),
}
"""Every engine by name."""

__all__ = ["EDGE_ENGINE", "ENGINES", "Engine"]
