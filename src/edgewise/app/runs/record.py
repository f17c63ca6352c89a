"""Conversion of a recipe to and from ``recipe.json``, which stores the values of all its fields."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from typing import Any

from edgewise import __version__
from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.kinds import DATA, TASKS, Registry
from edgewise.app.runs.recipe_fields import PARTS, Field, fields_of, model_fields, with_values
from edgewise.app.train.folder import RECIPE, RunFolder
from edgewise.app.train.optimizer import OptimizerSettings
from edgewise.app.train.parsing import describe, read_value, show_value
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.schedule import SCHEDULES
from edgewise.app.train.settings import TrainerSettings
from edgewise.models import MODELS

KINDS: dict[str, Mapping[str, Any]] = {
    "data": DATA,
    "task": TASKS,
    "optimizer": {"optimizer": OptimizerSettings},
    "schedule": SCHEDULES,
    "trainer": {"trainer": TrainerSettings},
}
"""For each part of a recipe: its classes, by the name that ``recipe.json`` stores as ``use``.

Installed packages may add classes to a :class:`Registry`.
"""


def to_record(recipe: Recipe) -> dict[str, Any]:
    """Return the content of ``recipe.json``: a recipe as JSON values, with all of its fields.

    Raises:
        ArgumentError: a class is not known by a name, or JSON cannot represent a value.

    Example:
        >>> from edgewise.app import runs
        >>> from edgewise.app.kinds import find
        >>> runs.to_record(find("digits"))["data"]["use"]
        'digits'
    """
    _check_model(recipe)
    record: dict[str, Any] = {"edgewise": __version__, "recipe": recipe.name}
    record |= {"summary": recipe.summary, "model": {"use": recipe.model.func.__name__}}
    for part in PARTS:
        use = _use(part, getattr(recipe, part))
        record[part] = {"use": use} if len(KINDS[part]) > 1 or part in ("data", "task") else {}
    packages = {
        table.provider(record[part]["use"])
        for part, table in KINDS.items()
        if isinstance(table, Registry) and record[part]["use"] not in table.own
    }
    if packages:
        record["packages"] = sorted(map(str, packages))
    for name, field in fields_of(recipe).items():
        part, _, key = name.rpartition(".")
        if name != "model":  # The model is recorded above as `use`.
            (record[part] if part else record)[key] = _shown(name, field)
    return record


def _check_model(recipe: Recipe) -> None:
    """Raise ArgumentError if the model collects an argument in ``**kwargs``.

    ``recipe.json`` could not record it, because it is not a field.
    """
    known = model_fields(recipe.model, recipe.data.provides)
    for name in recipe.model.keywords:
        if name not in known and name not in recipe.data.provides:
            use = recipe.model.func.__name__
            raise ArgumentError(
                f"model.{name}",
                expected=f"a named parameter of {use}, because recipe.json records only named "
                "parameters",
                got=f"{name}={recipe.model.keywords[name]!r}",
                remedy=f"make {name} a named parameter of {use}",
            )


def _use(part: str, value: Any) -> str:
    """Return the name by which ``recipe.json`` stores the class of a part of the recipe.

    Args:
        part: name of the part, such as "data".
        value: instance of the class.
    """
    # The classes of Edgewise come first, so that other packages are imported only if needed.
    for table in (getattr(KINDS[part], "own", {}), KINDS[part]):
        for name, kind in table.items():
            if type(value) is kind:
                return name
    raise ArgumentError(
        part,
        expected=f"one of {', '.join(sorted(KINDS[part]))}",
        got=type(value).__name__,
        remedy="add the class to a package (see docs/howto/own_recipes.md), or use training.fit",
    )


def _shown(name: str, field: Field) -> Any:
    """Return the value of a recipe field as a JSON value.

    Args:
        name: name of the field, for the error.
        field: the field.

    Raises:
        ArgumentError: reading the JSON value gives another value.
    """
    shown = show_value(field.value)
    if read_value(name, shown, field.kind) != field.value:
        raise ArgumentError(
            name,
            expected=f"{describe(field.kind)}, in a form that JSON can represent",
            got=repr(field.value),
            remedy="choose another value",
        )
    return shown


def from_record(record: Mapping[str, Any]) -> Recipe:
    """Return the recipe that :func:`to_record` converted to JSON values.

    Raises:
        ArgumentError: a field or class is unknown in this version and in the installed packages, or
            a value has the wrong type.

    Example:
        >>> from edgewise.app import runs
        >>> from edgewise.app.kinds import find
        >>> recipe = find("digits")
        >>> runs.from_record(runs.to_record(recipe)).name
        'digits'
    """
    try:
        parts = {part: _default(part, record) for part in PARTS}
        use = record["model"]["use"]
        check_choice("model", use, MODELS)
        name, summary = (read_value(key, record[key], str) for key in ("recipe", "summary"))
        bare = Recipe(name, summary, partial(MODELS[use]), **parts)
        values = {"seed": record["seed"], "from": record.get("from", "")}
        for part in ("model", *PARTS):
            values |= {f"{part}.{k}": v for k, v in record[part].items() if k != "use"}
    except (KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(
            RECIPE,
            expected="a recipe that `edgewise train` wrote",
            got=f"a recipe without {error}",
            remedy="train again with this version of Edgewise",
        ) from error
    return with_values(bare, values)


def _default(part: str, record: Mapping[str, Any]) -> Any:
    """Create a part of a recipe with the class that a record names and default values.

    Args:
        part: name of the part, such as "data".
        record: content of ``recipe.json``.

    Raises:
        ArgumentError: the class is unknown, because the package that adds it is not installed.
    """
    use = record[part].get("use", part)
    if isinstance(KINDS[part], Registry) and use not in KINDS[part]:
        packages = record.get("packages", [])
        raise ArgumentError(
            part,
            expected=f"a class for {part} that Edgewise or an installed package has",
            got=f"{use}, in a run of the recipe {record['recipe']}",
            remedy=f"install {' and '.join(packages)}"
            if packages
            else "install the package that adds it, for example the folder examples of Edgewise",
        )
    check_choice(part, use, KINDS[part])
    return KINDS[part][use]()


def load_recipe(folder: RunFolder) -> Recipe:
    """Return the recipe of a run folder.

    Example:
        >>> from pathlib import Path
        >>> from edgewise.app import runs
        >>> from edgewise.app.train import RunFolder
        >>> recipe = runs.load_recipe(RunFolder(Path("runs/mine")))  # doctest: +SKIP
    """
    with folder.reading(RECIPE, "a recipe that `edgewise train` wrote"):
        return from_record(folder.read_json(RECIPE))


def check_finished(folder: RunFolder, recipe: Recipe) -> None:
    """Check that a folder contains one finished run.

    Raises:
        MissingDataError: the run has not saved its best weights.
        ArgumentError: the folder has several runs.
    """
    if not folder.has(folder.weights.name):
        folder.refuse_several()
        raise MissingDataError(
            f"{folder.weights}: no such file. Remedy: finish the run: repeat the command that "
            f"started it (`edgewise train {shlex.quote(recipe.name)} ...`), with "
            f"--out {shlex.quote(str(folder.path))} --resume."
        )


DECIDES_NOTHING = ("trainer.save_every",)
"""Fields that do not affect the results of a run, so that they may change when it is resumed."""


def differences(recipe: Recipe, other: Recipe) -> list[str]:
    """Return the fields that differ between a run and a new command, as text.

    An example is "model.heads: 8 in the run, 4 now".

    Args:
        recipe: recipe of the run.
        other: recipe of the new command.
    """
    if recipe.name != other.name:
        return [f"recipe: {recipe.name} in the run, {other.name} now"]
    theirs = fields_of(other)
    return [
        f"{name}: {show_value(field.value)} in the run, {show_value(theirs[name].value)} now"
        for name, field in fields_of(recipe).items()
        if name in theirs and name not in DECIDES_NOTHING and field.value != theirs[name].value
    ]
