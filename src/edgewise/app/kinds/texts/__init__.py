"""TODO."""

from __future__ import annotations

from edgewise.app.kinds.texts.files import SST2, TextTable

__all__ = ["SST2", "TextTable"]


def __dir__() -> list[str]:
    return __all__
