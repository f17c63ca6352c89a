"""Writing and reading ``recipe.json``, which contains every field of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from edgewise import __version__
from edgewise.arguments import check_choice
from edgewise.data import DATA
from edgewise.errors import ArgumentError, MissingDataError
from edgewise.models import MODELS
from edgewise.recipes.recipe import Recipe
from edgewise.runs.parsing import describe, read_value, show_value
from edgewise.runs.recipe_fields import PARTS, Field, fields_of, model_fields, with_values
from edgewise.tasks import TASKS
from edgewise.training import SCHEDULES, OptimizerSettings, RunFolder, TrainerSettings
from edgewise.training.folder import RECIPE

KINDS: dict[str, Mapping[str, Any]] = {
    "data": DATA,
    "task": TASKS,
    "optimizer": {"optimizer": OptimizerSettings},
    "schedule": SCHEDULES,
    "trainer": {"trainer": TrainerSettings},
}
"""Classes of each part by name. A record has the name in ``use``."""


def to_record(recipe: Recipe) -> dict[str, Any]:
    """Convert a recipe to a JSON object with all fields, including defaults.

    Raises:
        ArgumentError: a part or a value cannot be represented in JSON, so the recipe could not be
            rebuilt.

    """
    _check_model(recipe)
    record: dict[str, Any] = {"edgewise": __version__, "recipe": recipe.name}
    record |= {"summary": recipe.summary, "model": {"use": recipe.model.func.__name__}}
    for part in PARTS:
        use = _use(part, getattr(recipe, part))
        record[part] = {"use": use} if len(KINDS[part]) > 1 or part in ("data", "task") else {}
    for name, field in fields_of(recipe).items():
        part, _, key = name.rpartition(".")
        if name != "model":  # its name is there already
            (record[part] if part else record)[key] = _shown(name, field)
    return record


def _check_model(recipe: Recipe) -> None:
    """Check that all arguments of the model are fields, because others are not recorded."""
    known = model_fields(recipe.model, recipe.data.provides)
    for name in recipe.model.keywords:
        if name not in known and name not in recipe.data.provides:
            use = recipe.model.func.__name__
            raise ArgumentError(
                f"model.{name}",
                expected=f"a named parameter of {use}, because recipe.json records no others",
                got=f"{name}={recipe.model.keywords[name]!r}",
                remedy=f"make {name} a named parameter of {use}",
            )


def _use(part: str, value: Any) -> str:
    """Return the recorded name of a part's class."""
    for name, kind in KINDS[part].items():
        if type(value) is kind:
            return name
    raise ArgumentError(
        part,
        expected=f"one of {', '.join(sorted(KINDS[part]))}",
        got=type(value).__name__,
        remedy="use one of these, or training.fit, because a class of your own cannot be rebuilt "
        "from recipe.json",
    )


def _shown(name: str, field: Field) -> Any:
    """Convert a value to JSON, and check that reading it gives the same value."""
    shown = show_value(field.value)
    if read_value(name, shown, field.kind) != field.value:
        raise ArgumentError(
            name,
            expected=f"{describe(field.kind)} that recipe.json can represent",
            got=repr(field.value),
            remedy="choose another value",
        )
    return shown


def from_record(record: Mapping[str, Any]) -> Recipe:
    """Rebuild a recipe from its record.

    Raises:
        ArgumentError: this version does not have a part or a field, or a value is invalid.

    """
    try:
        parts = {part: _default(part, record[part]) for part in PARTS}
        use = record["model"]["use"]
        check_choice("model", use, MODELS)
        bare = Recipe(record["recipe"], record["summary"], partial(MODELS[use]), **parts)
        values = {"seed": record["seed"], "from": record.get("from", "")}
        for part in ("model", *PARTS):
            values |= {f"{part}.{k}": v for k, v in record[part].items() if k != "use"}
    except (KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(
            RECIPE,
            expected="a recipe that `edgewise train` wrote",
            got=f"a recipe without {error}",
            remedy="train again with this version",
        ) from error
    return with_values(bare, values)


def _default(part: str, record: Mapping[str, Any]) -> Any:
    use = record.get("use", part)
    check_choice(part, use, KINDS[part])
    return KINDS[part][use]()


def load_recipe(folder: RunFolder) -> Recipe:
    """Read the recipe of a run folder."""
    return from_record(folder.read_json(RECIPE))


def check_finished(folder: RunFolder, recipe: Recipe) -> None:
    """Raise an error if the run has not finished, or the folder contains several runs."""
    if not folder.weights.is_file():
        folder.refuse_several()
        raise MissingDataError(
            f"{folder.weights}: no such file. Remedy: finish the run with `edgewise train "
            f"{recipe.name} --out {folder.path} --resume`."
        )


DECIDES_NOTHING = ("trainer.save_every",)
"""Fields that do not change the results of a run."""


def differences(recipe: Recipe, other: Recipe) -> list[str]:
    """Return the differing fields of two recipes, such as ``model.heads 8 and 4``."""
    if recipe.name != other.name:
        return [f"recipe {recipe.name} and {other.name}"]
    theirs = fields_of(other)
    return [
        f"{name} {show_value(field.value)} and {show_value(theirs[name].value)}"
        for name, field in fields_of(recipe).items()
        if name in theirs and name not in DECIDES_NOTHING and field.value != theirs[name].value
    ]
