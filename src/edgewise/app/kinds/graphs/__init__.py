"""TODO."""

from __future__ import annotations

from edgewise.app.kinds.graphs.tu import TU

__all__ = ["TU"]


def __dir__() -> list[str]:
    return __all__
