"""User-defined patterns in expressions, such as ``mymodule:Strided(2)``.

Importing a module runs its code, and an expression may come from another person's run folder.
Therefore a module is imported only if the user has named it on the command line or in the
environment variable EDGEWISE_IMPORT. The name after the colon must be a Pattern object or class.
"""

from __future__ import annotations

import importlib
import os
import re
import sys

from edgewise.errors import ArgumentError
from edgewise.graphs.graph import Pattern

OWN = re.compile(r"(?<![\w.:])([A-Za-z_]\w*(?:\.\w+)*):([A-Za-z_]\w*)")
IMPORT = "EDGEWISE_IMPORT"


def allow(text: str) -> None:
    """Add the modules named in an expression to EDGEWISE_IMPORT, which allows importing them.

    The environment variable also holds for child processes.
    """
    named = {module for module, _ in OWN.findall(text)}
    if named - _allowed():
        os.environ[IMPORT] = ",".join(sorted(named | _allowed()))


def find(module: str, name: str) -> Pattern | type[Pattern]:
    """Return the ``Pattern`` object or class called ``name`` in a module.

    Raises:
        ArgumentError: importing the module is not allowed or fails, or it has no such pattern.
    """
    if module not in sys.modules and module not in _allowed():
        raise ArgumentError(
            "graph",
            expected=f"a module that is already imported or listed in {IMPORT}",
            got=f"{module}, for {module}:{name}",
            remedy=f"if you trust {module}, import it first, or set {IMPORT}={module}",
        )
    thing = getattr(_imported(module, name), name, None)
    if isinstance(thing, Pattern) or (isinstance(thing, type) and issubclass(thing, Pattern)):
        return thing
    raise ArgumentError(
        "graph",
        expected=f"a Pattern object or class named {name} in {module}",
        got="nothing of this name" if thing is None else f"{name} of type {type(thing).__name__}",
        remedy="correct the name, or derive the class from edgewise.graphs.Pattern",
    )


def _allowed() -> set[str]:
    return set(filter(None, os.environ.get(IMPORT, "").split(",")))


def _imported(module: str, name: str) -> object:
    here = str(os.getcwd())  # noqa: PTH109 - entries of sys.path are texts
    if here not in sys.path and "" not in sys.path:
        # The command `edgewise` does not search the current folder for modules, so add it.
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except Exception as error:  # The user's module may raise any exception.
        raise ArgumentError(
            "graph",
            expected=f"a module {module} that can be imported, in this folder or installed",
            got=f"{module}:{name} ({type(error).__name__}: {error})",
            remedy="correct the name, or the error in the module",
        ) from error
