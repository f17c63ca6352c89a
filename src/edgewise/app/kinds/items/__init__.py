"""TODO."""

from __future__ import annotations

from edgewise.app.kinds.items.data import Gowalla
from edgewise.app.kinds.items.files import InteractionFiles
from edgewise.app.kinds.items.task import Recommendation

__all__ = ["Gowalla", "InteractionFiles", "Recommendation"]


def __dir__() -> list[str]:
    return __all__
