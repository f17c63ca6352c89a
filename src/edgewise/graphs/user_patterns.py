"""User-defined patterns in expressions, such as ``mymodule:Strided(2)``.

An expression may come from another person's run folder, and importing a module runs its code. A
module is imported only if the user has named it on the command line or in EDGEWISE_IMPORT, or if it
belongs to an installed plug-in. ``sys.path`` is never changed.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from importlib import metadata
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType

from edgewise._utils.errors import ArgumentError
from edgewise.graphs.graph import Pattern

USER_PATTERN = re.compile(r"(?<![\w.:])([A-Za-z_]\w*(?:\.\w+)*):([A-Za-z_]\w*)", re.ASCII)
IMPORT = "EDGEWISE_IMPORT"
PLUGINS = "edgewise.kinds"
"""Group of the entry points by which installed packages add kinds of problems."""


def allow(text: str) -> None:
    """Add the modules named in an expression to EDGEWISE_IMPORT, also for child processes."""
    if modules := {module for module, _ in USER_PATTERN.findall(text)}:
        os.environ[IMPORT] = ",".join(sorted(modules | _allowed()))


def find(module: str, name: str) -> Pattern | type[Pattern]:
    """Return the ``Pattern`` object or class called ``name`` in a module that may be imported.

    Raises:
        ArgumentError: importing the module is not allowed or fails, or it has no such pattern.
    """
    if module in _allowed() or _is_of_plugin(module):
        pattern = getattr(_imported(module, name), name, None)
    elif module in sys.modules:
        # getattr would run the __getattr__ of a module, which may import others.
        pattern = vars(sys.modules[module]).get(name)
    else:
        raise ArgumentError(
            "graph",
            expected=f"a module that the program has imported, or that {IMPORT} lists",
            got=f"{module}, for {module}:{name}",
            remedy=f"if you trust {module}, import it first, or set {IMPORT}={module}",
        )
    if isinstance(pattern, Pattern) or (isinstance(pattern, type) and issubclass(pattern, Pattern)):
        return pattern
    raise ArgumentError(
        "graph",
        expected=f"a Pattern object or class named {name} in {module}",
        got="nothing of this name"
        if pattern is None
        else f"{name} of type {type(pattern).__name__}",
        remedy="correct the name, or derive the class from edgewise.graphs.Pattern",
    )


def _allowed() -> set[str]:
    return set(filter(None, os.environ.get(IMPORT, "").split(",")))


def _is_of_plugin(module: str) -> bool:
    """Return whether a module belongs to an installed plugin. Nothing is imported."""
    package = module.partition(".")[0]
    entries = metadata.entry_points(group=PLUGINS)
    return any(entry.module.partition(".")[0] == package for entry in entries)


def _imported(module: str, name: str) -> ModuleType:
    try:
        _import_from_current_folder(module.partition(".")[0])
        return importlib.import_module(module)
    except Exception as error:  # The user's module may raise any exception.
        raise ArgumentError(
            "graph",
            expected=f"a module {module} that can be imported, in this folder or installed",
            got=f"{module}:{name} ({type(error).__name__}: {error})",
            remedy="correct the name, or the error in the module",
        ) from error


def _import_from_current_folder(module: str) -> None:
    """Import a top-level module of the current folder, unless ``sys.path`` has one of this name."""
    if module in sys.modules or find_spec(module) is not None:
        return
    spec = PathFinder.find_spec(module, [str(Path.cwd())])
    if spec is None:
        return  # The caller's import raises the error.
    sys.modules[module] = module_from_spec(spec)
    try:
        if spec.loader is not None:
            spec.loader.exec_module(sys.modules[module])
    except BaseException:
        del sys.modules[module]
        raise
