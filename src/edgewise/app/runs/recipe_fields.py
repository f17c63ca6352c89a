"""Fields of a recipe by name, such as ``model.heads``, and functions that change them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, get_type_hints

from edgewise import models
from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError
from edgewise.app.runs.field_docs import field_meanings
from edgewise.app.train.parsing import read_value
from edgewise.app.train.recipe import Recipe

TARGET_SYNONYMS = {f"data.{name}" for name in ("column", "label", "labels", "tag", "targets")}
"""Words that people try for the field ``data.target``."""

PARTS = ("data", "task", "optimizer", "schedule", "trainer")


@dataclass(frozen=True)
class Field:
    """Value, type and description of a recipe field.

    Attributes:
        value: current value.
        kind: type annotation.
        meaning: description of the field.
    """

    value: Any
    kind: Any
    meaning: str = ""


def fields_of(recipe: Recipe) -> dict[str, Field]:
    """Return all fields of a recipe that can be changed, by name, such as ``model.heads``.

    Example:
        >>> from edgewise.app import runs
        >>> from edgewise.app.kinds import find
        >>> fields = runs.fields_of(find("digits"))
        >>> fields["trainer.monitor"].value
        'val/loss'
    """
    found = {"model": Field(recipe.model.func.__name__, str, "name of the model")}
    own = model_fields(recipe.model, recipe.data.provides)
    found |= {f"model.{name}": field for name, field in own.items()}
    for part in PARTS:
        found |= {f"{part}.{n}": f for n, f in part_fields(getattr(recipe, part)).items()}
    meanings = field_meanings(Recipe)
    return found | {
        "seed": Field(recipe.seed, int, meanings["seed"]),
        "from": Field(recipe.start, str, meanings["start"]),
    }


def model_fields(model: partial[Any], provided: tuple[str, ...]) -> dict[str, Field]:
    """Return the arguments of a model as fields, except those that the data determine.

    Args:
        model: function that builds the model, with the arguments that the recipe sets.
        provided: names of the arguments that the data determine.
    """
    hints, meanings = get_type_hints(model.func), field_meanings(model.func)
    return {
        name: Field(
            model.keywords.get(name, parameter.default), hints[name], meanings.get(name, "")
        )
        for name, parameter in inspect.signature(model.func).parameters.items()
        if name not in provided and parameter.kind is not parameter.VAR_KEYWORD
    }


def part_fields(part: Any) -> dict[str, Field]:
    """Return the fields of a part of a recipe, such as its optimizer settings, by name."""
    hints, meanings = get_type_hints(type(part)), field_meanings(type(part))
    return {
        f.name: Field(getattr(part, f.name), hints[f.name], meanings.get(f.name, ""))
        for f in fields(part)
        if f.init  # The data determine the other fields.
    }


def with_values(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    """Return a copy of the recipe with new values for some of its fields.

    If ``model`` changes, the fields that both models have keep their values.

    Args:
        recipe: recipe to change.
        values: new values by name of the field, as typed on the command line or as JSON values.

    Raises:
        ArgumentError: a field is unknown (the error suggests the most similar one), a value has the
            wrong type, or the new model is for other inputs.

    Example:
        >>> from edgewise.app import runs
        >>> from edgewise.app.kinds import find
        >>> values = {"optimizer.lr": 0.01, "model.depth": "3"}
        >>> recipe = runs.with_values(find("digits"), values)
        >>> recipe.optimizer.lr, recipe.model.keywords["depth"]
        (0.01, 3)
    """
    if "model" in values:
        recipe = _with_model(recipe, values["model"])
        values = {name: value for name, value in values.items() if name != "model"}
    known = fields_of(recipe)
    changes: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if name in TARGET_SYNONYMS and "data.target" in known and name not in known:
            raise ArgumentError(
                name,
                expected="data.target",
                got=name,
                remedy="--data.target names the column to predict, for every kind of data",
            )
        check_choice("field", name, known)
        part, _, field = name.rpartition(".")
        changes.setdefault(part, {})[field] = read_value(name, value, known[name].kind)
    model = partial(recipe.model.func, **{**recipe.model.keywords, **changes.pop("model", {})})
    own = {"start" if name == "from" else name: v for name, v in changes.pop("", {}).items()}
    parts = {part: replace(getattr(recipe, part), **new) for part, new in changes.items()}
    return replace(recipe, model=model, **parts, **own)


def changed_fields(recipe: Recipe, base: Recipe) -> dict[str, Any]:
    """Return the fields in which ``recipe`` differs from ``base``, with their values in ``recipe``.

    ``with_values(base, changes)`` then gives ``recipe``.
    """
    own, model = fields_of(recipe), recipe.model.func.__name__
    changes: dict[str, Any] = {}
    if model != base.model.func.__name__:
        changes["model"] = model
        base = _with_model(base, model)
    known = fields_of(base)
    return changes | {
        name: field.value
        for name, field in own.items()
        if name != "model" and (name not in known or field.value != known[name].value)
    }


def _with_model(recipe: Recipe, name: str) -> Recipe:
    """Return the recipe with another model.

    Args:
        recipe: recipe to change.
        name: name of the new model, which must be for the same kind of input.
    """
    own = recipe.model.func.__name__
    kind = next((kind for kind in models.KINDS.values() if own in kind), {own: recipe.model.func})
    if name in models.MODELS and name not in kind:
        raise ArgumentError(
            "model",
            expected=f"one of {', '.join(kind)}, the models for the same inputs as {own}",
            got=f"{name}, a model for other inputs",
            remedy="choose another model or another recipe",
        )
    check_choice("model", name, kind)
    if name == own:
        return recipe
    known = model_fields(partial(kind[name]), recipe.data.provides)
    shared = {key: value for key, value in recipe.model.keywords.items() if key in known}
    return replace(recipe, model=partial(kind[name], **shared))
