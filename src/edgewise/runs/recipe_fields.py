"""The fields of a recipe by dotted names, such as ``model.heads``, and how to change them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, get_type_hints

from edgewise.arguments import check_choice
from edgewise.recipes.recipe import Recipe
from edgewise.runs.parsing import read_value

PARTS = ("data", "task", "optimizer", "schedule", "trainer")


@dataclass(frozen=True)
class Field:
    """The value of a field and the type that another value must have."""

    value: Any
    kind: Any


def fields_of(recipe: Recipe) -> dict[str, Field]:
    """Every field that can be chosen, by dotted name, in the order of the recipe."""
    found = {f"model.{n}": f for n, f in model_fields(recipe.model, recipe.data.provides).items()}
    for part in PARTS:
        found |= {f"{part}.{n}": f for n, f in part_fields(getattr(recipe, part)).items()}
    return found | {"seed": Field(recipe.seed, int), "from": Field(recipe.start, str)}


def model_fields(model: partial[Any], provided: tuple[str, ...]) -> dict[str, Field]:
    """The arguments of a model but those that the data decide."""
    hints = get_type_hints(model.func)
    return {
        name: Field(model.keywords.get(name, parameter.default), hints[name])
        for name, parameter in inspect.signature(model.func).parameters.items()
        if name not in provided and parameter.kind is not parameter.VAR_KEYWORD
    }


def part_fields(part: Any) -> dict[str, Field]:
    """The fields of a dataclass."""
    hints = get_type_hints(type(part))
    return {f.name: Field(getattr(part, f.name), hints[f.name]) for f in fields(part)}


def with_values(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    """The recipe with other values, given as text or as JSON has them.

    Raises:
        ArgumentError: no such field (suggests the nearest), or a value that does not fit.

    """
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
