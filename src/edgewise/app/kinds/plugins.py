"""Kinds of problems that packages add by an entry point; see ``docs/howto/own_recipes.md``."""

from __future__ import annotations

import warnings
from importlib import metadata
from typing import NamedTuple

from edgewise.app.kinds.kind import Kind
from edgewise.graphs.user_patterns import PLUGINS


class PluginWarning(UserWarning):
    """Warning: a package that adds a kind is installed but cannot be imported."""


class Plugin(NamedTuple):
    """Kind that an installed package adds, and the name of the package."""

    package: str
    kind: Kind


_loaded: list[Plugin] | None = None


def plugins() -> list[Plugin]:
    """Return the plugins of all installed packages, imported by the first call."""
    global _loaded  # noqa: PLW0603 - cache of the plugins, filled while they load
    if _loaded is None:
        _loaded = []
        for entry in sorted(metadata.entry_points(group=PLUGINS), key=lambda entry: entry.name):
            try:
                _loaded.append(Plugin(_package(entry), entry.load().KIND))
            except Exception as error:
                warnings.warn(
                    f"the kind of the package {_package(entry)} cannot be used: importing "
                    f"{entry.value} raised {type(error).__name__}: {error}. Remedy: update or "
                    f"repair the package, or uninstall it",
                    PluginWarning,
                    stacklevel=2,
                )
    return _loaded


def _package(entry: metadata.EntryPoint) -> str:
    return entry.name if entry.dist is None else entry.dist.name
