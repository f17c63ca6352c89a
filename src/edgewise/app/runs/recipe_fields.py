"""Fields of a recipe by name, such as ``model.heads``, and functions that change them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, get_type_hints

from edgewise import models
from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError
from edgewise.app.runs.field_docs import field_meanings
from edgewise.app.runs.pretrained import with_fine_tuning
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
        owner: class or function whose docstring describes the field; None for the model's name.
        name: name of the field in this docstring.

    Example:
        >>> from edgewise.app import kinds, runs
        >>> runs.fields_of(kinds.find("gat-cora"))["model.heads"].value
        8
    """

    value: Any
    kind: Any
    owner: Callable[..., Any] | None
    name: str

    @property
    def meaning(self) -> str:
        """Description of the field; "" if the docstring has none."""
        if self.owner is None:
            return "name of the model"
        return field_meanings(self.owner).get(self.name, "")


def fields_of(recipe: Recipe) -> dict[str, Field]:
    """Return all fields of a recipe that can be changed, by name, such as ``model.heads``.

    Example:
        >>> from edgewise.app import runs
        >>> from edgewise.app.kinds import find
        >>> fields = runs.fields_of(find("digits"))
        >>> fields["trainer.monitor"].value
        'val/loss'
    """
    by_name = {"model": Field(recipe.model.func.__name__, str, None, "model")}
    arguments = model_fields(recipe.model, recipe.data.provides)
    by_name |= {f"model.{name}": field for name, field in arguments.items()}
    for section in PARTS:
        settings = part_fields(getattr(recipe, section))
        by_name |= {f"{section}.{name}": field for name, field in settings.items()}
    by_name["seed"] = Field(recipe.seed, int, Recipe, "seed")
    by_name["from"] = Field(recipe.start, str, Recipe, "start")
    return by_name


def model_fields(model: partial[Any], provided: tuple[str, ...]) -> dict[str, Field]:
    """Return the arguments of a model as fields, except those that the data determine."""
    hints = get_type_hints(model.func)
    return {
        name: Field(model.keywords.get(name, parameter.default), hints[name], model.func, name)
        for name, parameter in inspect.signature(model.func).parameters.items()
        if name not in provided and parameter.kind is not parameter.VAR_KEYWORD
    }


def part_fields(settings: Any) -> dict[str, Field]:
    """Return the fields of a part of a recipe, such as its optimizer settings, by name."""
    cls, hints = type(settings), get_type_hints(type(settings))
    return {
        field.name: Field(getattr(settings, field.name), hints[field.name], cls, field.name)
        for field in fields(settings)
        if field.init  # The data determine the other fields.
    }


def with_values(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    """Return a copy of the recipe with new values for some of its fields.

    If ``model`` changes, the fields that both models have keep their values. If ``from`` changes to
    a Hugging Face folder, the settings become those of fine-tuning, except those in ``values``.
    A value of ``trainer.epochs`` without one of ``trainer.min_steps`` sets the latter to 0.

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
    if values.get("from", recipe.start) != recipe.start:
        recipe = with_fine_tuning(recipe, str(values["from"]))
    if "trainer.epochs" in values:
        values = {"trainer.min_steps": 0, **values}
    known_fields = fields_of(recipe)
    changes: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if name in TARGET_SYNONYMS and "data.target" in known_fields and name not in known_fields:
            raise ArgumentError(
                name,
                expected="data.target",
                got=name,
                remedy="--data.target names the column to predict, for every kind of data",
            )
        check_choice("field", name, known_fields)
        section, _, key = name.rpartition(".")
        key = "start" if name == "from" else key
        changes.setdefault(section, {})[key] = read_value(name, value, known_fields[name].kind)
    model = partial(recipe.model.func, **{**recipe.model.keywords, **changes.pop("model", {})})
    top_level = changes.pop("", {})
    sections = {name: replace(getattr(recipe, name), **new) for name, new in changes.items()}
    return replace(recipe, model=model, **sections, **top_level)


def changed_fields(recipe: Recipe, base: Recipe) -> dict[str, Any]:
    """Return the values by which :func:`with_values` makes ``recipe`` from ``base``."""
    model = recipe.model.func.__name__
    changes: dict[str, Any] = {}
    if model != base.model.func.__name__:
        changes["model"] = model
        base = _with_model(base, model)
    base_fields = fields_of(base)
    return changes | {
        name: field.value
        for name, field in fields_of(recipe).items()
        if name != "model" and (name not in base_fields or field.value != base_fields[name].value)
    }


def _with_model(recipe: Recipe, name: str) -> Recipe:
    """Return the recipe with another model for the same kind of input."""
    current = recipe.model.func.__name__
    family = next((kind for kind in models.KINDS.values() if current in kind), None)
    family = family or {current: recipe.model.func}
    if name in models.MODELS and name not in family:
        raise ArgumentError(
            "model",
            expected=f"one of {', '.join(family)}, the models for the same inputs as {current}",
            got=f"{name}, a model for other inputs",
            remedy="choose another model or another recipe",
        )
    check_choice("model", name, family)
    if name == current:
        return recipe
    fields = model_fields(partial(family[name]), recipe.data.provides)
    shared = {key: value for key, value in recipe.model.keywords.items() if key in fields}
    return replace(recipe, model=partial(family[name], **shared))
