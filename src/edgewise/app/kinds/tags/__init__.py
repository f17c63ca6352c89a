"""TODO."""

from __future__ import annotations

from edgewise.app.kinds.tags.files import EWT, TagFile

__all__ = ["EWT", "TagFile"]


def __dir__() -> list[str]:
    return __all__
