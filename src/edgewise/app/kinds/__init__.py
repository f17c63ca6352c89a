"""Kinds of problems, one folder each, with a :class:`Kind` named ``KIND``; ``NAMES`` lists them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from importlib import import_module, metadata
from typing import Any, Generic, NamedTuple, TypeVar

from edgewise._utils.arguments import check_choice
from edgewise.app.kinds.kind import Baselines, Kind
from edgewise.app.predict.predictor import Predictor
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Data
from edgewise.app.train.task import Task
from edgewise.app.train.tasks import SHARED_TASKS
from edgewise.graphs.user_patterns import PLUGINS

__all__ = ["DATA", "RECIPES", "TASKS", "Baselines", "Kind", "PluginWarning", "find", "kinds"]

NAMES = (
    *("nodes", "links", "triples", "graphs", "molecules", "items", "texts", "tags", "language"),
    *("translation", "images", "series", "sounds", "tables"),
)
T = TypeVar("T")


class PluginWarning(UserWarning):
    """Warning: a package that adds a kind is installed but cannot be imported.

    Example:
        >>> import warnings
        >>> from edgewise.app.kinds import PluginWarning, kinds
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", PluginWarning)  # raise an error instead
        ...     names = [kind.name for kind in kinds()]
    """


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


@cache
def library_kinds() -> tuple[Kind, ...]:
    """Return the kinds of Edgewise, without those of installed packages."""
    return tuple(import_module(f"{__name__}.{name}").KIND for name in NAMES)


def kinds() -> Iterator[Kind]:
    """Yield the kinds of Edgewise, then those of installed packages, which are imported if no
    earlier kind ends the loop.
    """
    yield from library_kinds()
    yield from (plugin.kind for plugin in plugins())


class Registry(Mapping[str, T], Generic[T]):
    """Entries of the attribute ``field`` of all kinds by name; those of Edgewise have precedence.
    Packages are imported only to list them, or for a name that Edgewise does not have.
    """

    def __init__(self, field: str, shared: Mapping[str, T] | None = None) -> None:
        self.field, self.shared = field, shared or {}

    @cached_property
    def own(self) -> dict[str, T]:
        """Entries of Edgewise itself."""
        return {**self.shared, **self._of(library_kinds())}

    def provider(self, name: str) -> str | None:
        """Return the installed package that adds a name; None if no package does."""
        packages = (p.package for p in plugins() if name in self._of((p.kind,)))
        return next(packages, None)

    def _of(self, kinds: Iterable[Kind]) -> dict[str, T]:
        entries: dict[str, T] = {}
        for kind in kinds:
            values: Any = getattr(kind, self.field)
            by_name = values if isinstance(values, Mapping) else {v.name: v for v in values}
            for name, entry in by_name.items():
                entries.setdefault(name, entry)
        return entries

    def _all(self) -> dict[str, T]:
        return {**self._of(kinds()), **self.own}

    def __getitem__(self, name: str) -> T:
        library = self.own
        return library[name] if name in library else self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


DATA: Registry[type[Data]] = Registry("data")
"""Data set classes by their name in recipes and run folders."""
TASKS: Registry[type[Task]] = Registry("tasks", SHARED_TASKS)
"""Task classes by the name that run folders use."""
RECIPES: Registry[Recipe] = Registry("recipes")
"""Recipes by name."""


def find(name: str) -> Recipe:
    """Return the recipe of this name.

    Raises:
        ArgumentError: the name is unknown; the error suggests the most similar name.

    Example:
        >>> from edgewise.app import kinds
        >>> kinds.find("digits").trainer.monitor
        'val/loss'
    """
    if name not in RECIPES.own:
        check_choice("recipe", name, RECIPES)
    return RECIPES[name]


def entry_for(predictor: Predictor, field: str) -> Any:
    """Return the entry in "cases" or "explanations" for a predictor's nearest class, or None."""
    entries = {kind: make for k in kinds() for kind, make in getattr(k, field).items()}
    return next((entries[c] for c in type(predictor).__mro__ if c in entries), None)
