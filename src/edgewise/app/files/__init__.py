"""Readers of files: tables, edge lists, downloads."""

from __future__ import annotations

__all__ = []


def __dir__() -> list[str]:
    return __all__
