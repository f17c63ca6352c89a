"""Syntax trees of modules, which several tests read."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return all nodes of a module, the module itself first; do not change them."""
    gc.disable()  # A tree has no cycles, and the collector takes longer than the parser.
    try:
        return list(ast.walk(ast.parse(path.read_text())))
    finally:
        gc.enable()
