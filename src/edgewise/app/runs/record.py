"""Conversion of a recipe to and from ``recipe.json``, which stores the values of all its fields."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from edgewise import __version__
from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.kinds import DATA, TASKS, Registry
from edgewise.app.runs.recipe_fields import PARTS, Field, fields_of, with_values
from edgewise.app.train.folder import RECIPE, WEIGHTS, RunFolder
from edgewise.app.train.parsing import describe, read_value, show_value
from edgewise.app.train.recipe import OptimizerSettings, Recipe, TrainerSettings
from edgewise.app.train.schedule import SCHEDULES
from edgewise.models import MODELS

KINDS: dict[str, Mapping[str, Any]] = {
    "data": DATA,
    "task": TASKS,
    "optimizer": {"optimizer": OptimizerSettings},
    "schedule": SCHEDULES,
    "trainer": {"trainer": TrainerSettings},
}
"""Classes of each part of a recipe, by the name that ``recipe.json`` stores as ``use``."""


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
    fields = fields_of(recipe)
    for name in recipe.model.keywords:
        if f"model.{name}" not in fields and name not in recipe.data.provides:
            use = recipe.model.func.__name__  # It collects the argument in ``**kwargs``.
            raise ArgumentError(
                f"model.{name}",
                expected=f"a named parameter of {use}, because recipe.json records only named "
                "parameters",
                got=f"{name}={recipe.model.keywords[name]!r}",
                remedy=f"make {name} a named parameter of {use}",
            )
    record: dict[str, Any] = {"edgewise": __version__, "recipe": recipe.name}
    record |= {"summary": recipe.summary, "model": {"use": recipe.model.func.__name__}}
    for section in PARTS:
        use = _class_name(section, type(getattr(recipe, section)))
        record[section] = {"use": use} if section in ("data", "task", "schedule") else {}
    packages = {
        table.provider(record[section]["use"])
        for section, table in (("data", DATA), ("task", TASKS))
        if record[section]["use"] not in table.own
    }
    if packages:
        record["packages"] = sorted(map(str, packages))
    for name, field in fields.items():
        if name == "model":  # The model is recorded above as `use`.
            continue
        value = show_value(field.value)
        if read_value(name, value, field.kind) != field.value:
            raise ArgumentError(
                name,
                expected=f"{describe(field.kind)}, in a form that JSON can represent",
                got=repr(field.value),
                remedy="choose another value",
            )
        section, _, key = name.rpartition(".")
        (record[section] if section else record)[key] = value
    return record


def _class_name(section: str, cls: type) -> str:
    """Return the name by which ``recipe.json`` stores the class of a part of the recipe."""
    # The classes of Edgewise come first, so that other packages are imported only if needed.
    for table in (getattr(KINDS[section], "own", {}), KINDS[section]):
        for name, known_class in table.items():
            if cls is known_class:
                return name
    raise ArgumentError(
        section,
        expected=f"one of {', '.join(sorted(KINDS[section]))}",
        got=cls.__name__,
        remedy="add the class to a package (see docs/howto/own_recipes.md), or use training.fit",
    )


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
        defaults = {section: _default(section, record) for section in PARTS}
        use = record["model"]["use"]
        check_choice("model", use, MODELS)
        name, summary = (read_value(key, record[key], str) for key in ("recipe", "summary"))
        bare = Recipe(name, summary, partial(MODELS[use]), **defaults)
        bare = replace(bare, start=read_value("from", record.get("from", ""), str))
        values = {"seed": record["seed"]}
        for section in ("model", *PARTS):
            values |= {f"{section}.{k}": v for k, v in record[section].items() if k != "use"}
    except (KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(
            RECIPE,
            expected="a recipe that `edgewise train` wrote",
            got=f"a recipe without {error}",
            remedy="train again with this version of Edgewise",
        ) from error
    return with_values(bare, values)


def _default(section: str, record: Mapping[str, Any]) -> Any:
    """Create a part of a recipe with the class that a record names and default values."""
    use = record[section].get("use", section)
    table = KINDS[section]
    if isinstance(table, Registry) and use not in table:
        packages = record.get("packages", [])
        raise ArgumentError(
            section,
            expected=f"a class for {section} that Edgewise or an installed package has",
            got=f"{use}, in a run of the recipe {record['recipe']}",
            remedy=f"install {' and '.join(packages)}"
            if packages
            else "install the package that adds it, for example the folder examples of Edgewise",
        )
    check_choice(section, use, table)
    return table[use]()


def load_recipe(folder: RunFolder) -> Recipe:
    """Return the recipe of a run folder."""
    with folder.reading(RECIPE, "a recipe that `edgewise train` wrote"):
        return from_record(folder.read_json(RECIPE))


def check_finished(folder: RunFolder, recipe: Recipe) -> None:
    """Raise MissingDataError or ArgumentError unless a folder contains one finished run."""
    if not folder.has(WEIGHTS):
        folder.refuse_several()
        raise MissingDataError(
            f"{folder.weights}: no such file. Remedy: finish the run: repeat the command that "
            f"started it (`edgewise train {shlex.quote(recipe.name)} ...`), with "
            f"--out {shlex.quote(str(folder.path))} --resume."
        )


STEP = "step_size"
"""Key of ``recipe.json``: number of examples in a training step of all processes."""


EXAMPLES = "examples"
"""Key of ``recipe.json``: number of examples of each split."""


DECIDES_NOTHING = ("trainer.save_every",)
"""Fields that do not affect the results of a run, so that they may change when it is resumed."""


DIVIDES = ("data.batch_size", "trainer.devices", "trainer.strategy", "trainer.tensor_parallel")
"""Fields that say how processes divide a step; its number of examples must stay the same."""


def differences(recorded: Recipe, recipe: Recipe) -> list[str]:
    """Return the fields that differ, such as "model.heads: 8 in the run, 4 now"."""
    if recorded.name != recipe.name:
        return [f"recipe: {recorded.name} in the run, {recipe.name} now"]
    before, fields = fields_of(recorded), fields_of(recipe)
    ignored = {*DECIDES_NOTHING}
    if _asked_step_size(before) == _asked_step_size(fields) is not None:
        ignored |= {*DIVIDES}
    return [
        f"{name}: {_shown(field.value)} in the run, {_shown(fields[name].value)} now"
        for name, field in before.items()
        if name in fields and name not in ignored and field.value != fields[name].value
    ]


def _shown(value: Any) -> str:
    return repr(value) if value == "" else f"{show_value(value)}"


def _asked_step_size(fields: Mapping[str, Field]) -> int | None:
    """Return the number of examples of a step of all processes by the fields; None for data without
    batches. The data may limit the size of a batch, so :func:`check_step` compares the real number.
    """
    if "data.batch_size" not in fields:
        return None
    names = ("data.batch_size", "trainer.devices", "trainer.tensor_parallel")
    size, devices, same = (fields[name].value for name in names)
    return int(size * devices // same)


def check_examples(folder: RunFolder, examples: Mapping[str, int]) -> None:
    """Raise ArgumentError unless each split has as many examples as in the run that is resumed."""
    recorded = folder.read_json(RECIPE).get(EXAMPLES, examples)
    if recorded != examples:
        raise ArgumentError(
            "--resume",
            expected=f"the data of the run in {folder.path}, with these examples: {recorded}",
            got=f"{dict(examples)}",
            remedy="restore the files of the run, or start a new run with --out",
        )


def check_step(folder: RunFolder, step: int) -> None:
    """Raise ArgumentError unless a step has as many examples as in the run that is resumed."""
    recorded = folder.read_json(RECIPE).get(STEP, step)
    if recorded != step:
        raise ArgumentError(
            "--resume",
            expected=f"{recorded} examples in a step of all processes, as in the run in "
            f"{folder.path}",
            got=f"{step}, as the data limit the size of a batch",
            remedy="give trainer.devices and data.batch_size of the run, or set data.batch_size "
            "so that all batches of a step have this number of examples",
        )


def check_resumed(folder: RunFolder, recipe: Recipe, kind: str = "") -> None:
    """Check that a command resumes a run with its recipe and, unless empty, its ``kind``: "seed"
    with ``--seeds``, "fold" with ``--folds``, "one" without both.
    """
    differing = differences(load_recipe(folder), recipe)
    if differing and recipe.start and not Path(recipe.start).exists():
        raise MissingDataError(
            f"{recipe.start}: no such folder, from which the run in {folder.path} was started. "
            "Remedy: restore this folder until the run has finished."
        )
    if differing:
        raise ArgumentError(
            "--resume",
            expected=f"the fields with which the run in {folder.path} was started",
            got=f"different values ({'; '.join(differing)})",
            remedy="give the values of the run, or start a new run in another folder with --out",
        )
    begun = [name for name in ("seed", "fold") if any(folder.path.glob(f"{name}-*"))]
    if not begun and (folder.checkpoint.exists() or folder.weights.exists()):
        begun = ["one"]
    if kind and begun and kind not in begun:
        options = {"one": "neither --seeds nor --folds", "seed": "--seeds N", "fold": "--folds"}
        raise ArgumentError(
            "--resume",
            expected=f"{options[begun[0]]}, as in the command that started the run in "
            f"{folder.path}",
            got=options[kind],
            remedy="repeat the command that started the run, or start a new run with --out",
        )
