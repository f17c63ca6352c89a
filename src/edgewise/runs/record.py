"""``recipe.json``: all of a recipe, resolved, from which alone it can be rebuilt."""

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
"""The classes that each part may be of, by the name in the record; ``use`` says which."""


def to_record(recipe: Recipe) -> dict[str, Any]:
    """The recipe as JSON has it; every field is in it, whether it is a default or not.

    Raises:
        ArgumentError: a part or a value that a record cannot have, so that the recipe could not be
            rebuilt from it.

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
    """Refuse arguments of the model that are no fields: the record would be without them."""
    known = model_fields(recipe.model, recipe.data.provides)
    for name in recipe.model.keywords:
        if name not in known and name not in recipe.data.provides:
            use = recipe.model.func.__name__
            raise ArgumentError(
                f"model.{name}",
                expected=f"an argument that {use} has by name, as recipe.json records no other",
                got=f"{name}={recipe.model.keywords[name]!r}",
                remedy=f"make {name} a named parameter of {use}",
            )


def _use(part: str, value: Any) -> str:
    """The name in the record of the class that this part is of."""
    for name, kind in KINDS[part].items():
        if type(value) is kind:
            return name
    raise ArgumentError(
        part,
        expected=f"one of {', '.join(sorted(KINDS[part]))}, which a record can name",
        got=type(value).__name__,
        remedy="a class of your own cannot be rebuilt from recipe.json; use one that is listed, or "
        "training.fit with your own",
    )


def _shown(name: str, field: Field) -> Any:
    """The value as JSON has it, which must be read back as the same."""
    shown = show_value(field.value)
    if read_value(name, shown, field.kind) != field.value:
        raise ArgumentError(
            name,
            expected=f"{describe(field.kind)}, which a record can hold",
            got=repr(field.value),
            remedy="choose a value that recipe.json can have",
        )
    return shown


def from_record(record: Mapping[str, Any]) -> Recipe:
    """The recipe of a record.

    Raises:
        ArgumentError: a part or a field that this version does not have, or a value that does not
            fit.

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
            expected="a recipe as `edgewise train` records it",
            got=f"one without {error}",
            remedy="train again with this version",
        ) from error
    return with_values(bare, values)


def _default(part: str, record: Mapping[str, Any]) -> Any:
    use = record.get("use", part)
    check_choice(part, use, KINDS[part])
    return KINDS[part][use]()


def load_recipe(folder: RunFolder) -> Recipe:
    """The recipe of a run folder."""
    return from_record(folder.read_json(RECIPE))


def check_finished(folder: RunFolder, recipe: Recipe) -> None:
    """Refuse a run that has not kept its best weights yet, and several in one folder."""
    if not folder.weights.is_file():
        folder.refuse_several()
        raise MissingDataError(
            f"{folder.weights}: no such file. Remedy: finish the run with `edgewise train "
            f"{recipe.name} --out {folder.path} --resume`."
        )


DECIDES_NOTHING = ("trainer.save_every",)
"""Fields that no number of a run depends on."""


def differences(recipe: Recipe, other: Recipe) -> list[str]:
    """The fields that matter in which two recipes differ, as ``model.heads 8 and 4``."""
    if recipe.name != other.name:
        return [f"recipe {recipe.name} and {other.name}"]
    theirs = fields_of(other)
    return [
        f"{name} {show_value(field.value)} and {show_value(theirs[name].value)}"
        for name, field in fields_of(recipe).items()
        if name in theirs and name not in DECIDES_NOTHING and field.value != theirs[name].value
    ]
