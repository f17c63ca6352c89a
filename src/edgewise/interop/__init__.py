"""Support for models of other libraries: Hugging Face ``transformers`` and PyTorch Geometric.

Each subpackage needs one of these libraries. It is imported when it is first used, for example by
``ew.interop.pyg.GATConv``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__all__ = ["huggingface", "pyg"]

if TYPE_CHECKING:
    from edgewise.interop import huggingface, pyg

# With __getattr__, a type checker would accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in __all__:
            return importlib.import_module(f"edgewise.interop.{name}")
        raise AttributeError(f"module 'edgewise.interop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
