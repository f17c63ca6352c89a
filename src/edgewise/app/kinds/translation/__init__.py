"""TODO."""

from __future__ import annotations

from edgewise.app.kinds.translation.data import Multi30k, Parallel
from edgewise.app.kinds.translation.files import PairTable
from edgewise.app.kinds.translation.task import Translation

__all__ = ["Multi30k", "PairTable", "Parallel", "Translation"]


def __dir__() -> list[str]:
    return __all__
