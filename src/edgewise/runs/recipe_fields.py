"""Reading and changing the fields of a recipe by dotted names, such as ``model.heads``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, get_type_hints

from edgewise import models
from edgewise.arguments import check_choice
from edgewise.errors import ArgumentError
from edgewise.recipes.recipe import Recipe
from edgewise.runs.parsing import read_value

PARTS = ("data", "task", "optimizer", "schedule", "trainer")


@dataclass(frozen=True)
class Field:
    """Value and type of a field."""

    value: Any
    kind: Any


def fields_of(recipe: Recipe) -> dict[str, Field]:
    """Return all fields that can be set, by dotted name, in the order of the recipe."""
    found = {"model": Field(recipe.model.func.__name__, str)}
    own = model_fields(recipe.model, recipe.data.provides)
    found |= {f"model.{name}": field for name, field in own.items()}
    for part in PARTS:
        found |= {f"{part}.{n}": f for n, f in part_fields(getattr(recipe, part)).items()}
    return found | {"seed": Field(recipe.seed, int), "from": Field(recipe.start, str)}


def model_fields(model: partial[Any], provided: tuple[str, ...]) -> dict[str, Field]:
    """Return the arguments of a model, except those that the data determine."""
    hints = get_type_hints(model.func)
    return {
        name: Field(model.keywords.get(name, parameter.default), hints[name])
        for name, parameter in inspect.signature(model.func).parameters.items()
        if name not in provided and parameter.kind is not parameter.VAR_KEYWORD
    }


def part_fields(part: Any) -> dict[str, Field]:
    """Return the fields of a dataclass instance."""
    hints = get_type_hints(type(part))
    return {f.name: Field(getattr(part, f.name), hints[f.name]) for f in fields(part)}


def with_values(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    """Return a recipe with changed values, given as text or JSON values.

    A changed ``model`` keeps the values of fields that both models have.

    Raises:
        ArgumentError: a field does not exist (the error suggests the most similar name), a value is
            invalid, or the model is of another kind.

    """
    if "model" in values:
        recipe = _with_model(recipe, values["model"])
        values = {name: value for name, value in values.items() if name != "model"}
    known = fields_of(recipe)
    changes: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        check_choice("field", name, known)
        part, _, field = name.rpartition(".")
        changes.setdefault(part, {})[field] = read_value(name, value, known[name].kind)
    model = partial(recipe.model.func, **{**recipe.model.keywords, **changes.pop("model", {})})
    own = {"start" if name == "from" else name: v for name, v in changes.pop("", {}).items()}
    parts = {part: replace(getattr(recipe, part), **new) for part, new in changes.items()}
    return replace(recipe, model=model, **parts, **own)


def _with_model(recipe: Recipe, name: str) -> Recipe:
    """Return the recipe with another model of the same kind."""
    own = recipe.model.func.__name__
    kind = next((kind for kind in models.KINDS.values() if own in kind), {own: recipe.model.func})
    if name in models.MODELS and name not in kind:
        raise ArgumentError(
            "model",
            expected=f"one of {', '.join(kind)}, which can replace {own}",
            got=f"{name}, a model of another kind",
            remedy="choose one of them, or another recipe",
        )
    check_choice("model", name, kind)
    if name == own:
        return recipe
    known = model_fields(partial(kind[name]), recipe.data.provides)
    shared = {key: value for key, value in recipe.model.keywords.items() if key in known}
    return replace(recipe, model=partial(kind[name], **shared))
