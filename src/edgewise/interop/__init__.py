"""Edgewise inside other libraries' models. Each package here imports the library it serves.

Both are imported when they are first used: ``ew.interop.pyg.GATConv``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__all__ = ["huggingface", "pyg"]

if TYPE_CHECKING:
    from edgewise.interop import huggingface, pyg

if not TYPE_CHECKING:  # a type checker would take any name for one of the package's

    def __getattr__(name: str) -> object:
        if name in __all__:
            return importlib.import_module(f"edgewise.interop.{name}")
        raise AttributeError(f"module 'edgewise.interop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
