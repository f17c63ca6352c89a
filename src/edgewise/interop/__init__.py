"""Support for code of other libraries.

``flex`` and ``varlen`` have functions of ``torch.nn.attention``, and ``dgl`` layers of DGL.
``huggingface`` and ``pyg`` need ``transformers`` and PyTorch Geometric. Each is imported when it is
first used, for example by ``ew.interop.pyg.GATConv``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__all__ = ["dgl", "flex", "huggingface", "pyg", "varlen"]

if TYPE_CHECKING:
    from edgewise.interop import dgl, flex, huggingface, pyg, varlen

# With __getattr__, a type checker would accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in __all__:
            return importlib.import_module(f"edgewise.interop.{name}")
        raise AttributeError(f"module 'edgewise.interop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
