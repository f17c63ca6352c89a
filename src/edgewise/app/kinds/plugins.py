"""Tables of recipes, data sets, tasks, predictors and baselines, which packages can extend.

A package extends the tables with an entry point of the group ``edgewise.recipes``. The entry point
names a module with any of the attributes ``RECIPES`` (a tuple of recipes), ``DATA`` and ``TASKS``
(classes by name), ``PREDICTORS`` (a tuple of classes) and ``BASELINES`` (a tuple of
:class:`edgewise.app.runs.Kind`). ``docs/howto/own_recipes.md`` has an example.

A table imports these packages when it is listed, or when a name is looked up that Edgewise itself
does not have.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Generic, TypeVar

GROUP = "edgewise.recipes"
T = TypeVar("T")


class PluginWarning(UserWarning):
    """Warning: a package that adds recipes is installed but cannot be imported."""


@dataclass(frozen=True)
class Plugin:
    """Recipes, data sets, tasks, predictors and baselines that one package adds.

    Attributes:
        package: name of the installed distribution.
        tables: dict with the keys ``RECIPES``, ``DATA`` and ``TASKS``. Its values are dicts of
            recipes, data sets and tasks by name.
        predictors: classes of predictors.
        baselines: objects that give the baselines for one kind of recipe,
            :class:`edgewise.app.runs.Kind`.
    """

    package: str
    tables: Mapping[str, Mapping[str, Any]]
    predictors: tuple[Any, ...]
    baselines: tuple[Any, ...] = ()

    @classmethod
    def load(cls, entry: metadata.EntryPoint) -> Plugin:
        """Import the module that an entry point names, and return what it adds."""
        module = entry.load()
        recipes = {recipe.name: recipe for recipe in getattr(module, "RECIPES", ())}
        classes = {name: dict(getattr(module, name, {})) for name in ("DATA", "TASKS")}
        several = (tuple(getattr(module, name, ())) for name in ("PREDICTORS", "BASELINES"))
        return cls(_package(entry), {"RECIPES": recipes, **classes}, *several)


_loaded: list[Plugin] | None = None


def plugins() -> list[Plugin]:
    """Return the plugins of all installed packages; the first call imports the packages.

    A package that cannot be imported is ignored with a :class:`PluginWarning` that names it.
    """
    global _loaded  # noqa: PLW0603 - cache of the plugins, filled while they load
    if _loaded is None:
        _loaded = []
        for entry in sorted(metadata.entry_points(group=GROUP), key=lambda one: one.name):
            try:
                _loaded.append(Plugin.load(entry))
            except Exception as error:
                warnings.warn(
                    f"the recipes of the package {_package(entry)} cannot be used: importing "
                    f"{entry.value} raised {type(error).__name__}: {error}. Remedy: update or "
                    f"repair the package, or uninstall it",
                    PluginWarning,
                    stacklevel=2,
                )
    return _loaded


def is_of_plugin(module: str) -> bool:
    """Return whether a module belongs to an installed plugin. Nothing is imported."""
    package = module.partition(".")[0]
    entries = metadata.entry_points(group=GROUP)
    return any(entry.module.partition(".")[0] == package for entry in entries)


def provider(table: str, name: str) -> str | None:
    """Return the package that adds this name; None if no package does.

    Args:
        table: "RECIPES", "DATA" or "TASKS".
        name: name of a recipe, data set or task.
    """
    found = (plugin.package for plugin in plugins() if name in plugin.tables[table])
    return next(found, None)


class Registry(Mapping[str, T], Generic[T]):
    """Read-only dict by name: the entries of Edgewise, then those of installed packages.

    If a name occurs several times, the entry of Edgewise has precedence, then the package whose
    entry point comes first in alphabetical order.

    Args:
        table: attribute of a package's module that holds the entries, such as ``DATA``.
        own: entries of Edgewise itself.
    """

    def __init__(self, table: str, own: Mapping[str, T]) -> None:
        self.table, self.own = table, own

    def __getitem__(self, name: str) -> T:
        return self.own[name] if name in self.own else self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, T]:
        found = dict(self.own)
        for plugin in plugins():
            for name, entry in plugin.tables[self.table].items():
                found.setdefault(name, entry)
        return found


def _package(entry: metadata.EntryPoint) -> str:
    return entry.name if entry.dist is None else entry.dist.name
