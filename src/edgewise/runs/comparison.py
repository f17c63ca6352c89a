"""Compare values of one field: the recipe is trained once with each of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, Pattern
from edgewise.layers import PatchEmbedding
from edgewise.recipes.recipe import Recipe
from edgewise.runs.parsing import show_value
from edgewise.runs.recipe_fields import fields_of, with_values
from edgewise.runs.record import load_recipe
from edgewise.runs.train_recipe import check_same, prepare, train
from edgewise.training import RunFolder


@dataclass(frozen=True)
class Outcome:
    """One value and what became of it."""

    value: Any
    metrics: dict[str, float]
    rows: list[dict[str, float]]
    graph: Graph | None = None

    @property
    def label(self) -> str:
        """The value in words."""
        return str(show_value(self.value))

    @property
    def edges_per_token(self) -> float | None:
        """How many nodes a node reads on average, where the value is a graph."""
        return None if self.graph is None else self.graph.num_edges / self.graph.num_targets


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found, in the order of the values."""

    recipe: Recipe
    field: str
    outcomes: list[Outcome]


def compare(
    recipe: Recipe, field: str, values: Sequence[str], path: Path, *, resume: bool = False
) -> Comparison:
    """Train the recipe once for each value, with everything else the same.

    Args:
        recipe: what to train.
        field: a dotted name, such as ``model.graph``.
        values: as typed on the command line.
        path: gets a run folder for each value.
        resume: go on where an earlier comparison into this folder stopped.

    Raises:
        ArgumentError: no such field, a value that does not fit, or the same value twice; all are
            checked before the first training.
        RunExistsError: there is something in the folder, and ``resume`` is false.

    """
    recipes = [with_values(recipe, {field: value}) for value in values]
    read = [fields_of(one)[field].value for one in recipes]
    folders = [path / _slug(str(show_value(value))) for value in read]
    if len(set(folders)) < len(folders):
        raise ArgumentError(
            "VALUE",
            expected="different values",
            got=", ".join(values),
            remedy="name each value once",
        )
    if not resume:
        RunFolder(path).refuse_existing()
    bound = []
    for one, value, folder in zip(recipes, read, folders, strict=True):
        bound.append(_bind(value, prepare(one)[0]))
        if resume and RunFolder(folder).has("recipe.json"):
            check_same(one, load_recipe(RunFolder(folder)), folder)
    about = {"recipe": recipe.name, "field": field, "values": [show_value(one) for one in read]}
    with RunFolder(path).claimed("comparison.json", about, resume=resume):
        outcomes = []
        for one, value, graph, folder in zip(recipes, read, bound, folders, strict=True):
            started = RunFolder(folder).has("recipe.json")
            title = f"{recipe.name} {show_value(value)}"
            metrics = train(one, folder, resume=started, title=title)
            outcomes.append(Outcome(value, metrics, RunFolder(folder).read_log(), graph))
        return Comparison(recipe, field, outcomes)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", text).strip("-") or "value"


def _bind(value: Any, model: nn.Module) -> Graph | None:
    """The graph over the patches of an image model, where the value is one."""
    patches = [layer.num_patches for layer in model.modules() if isinstance(layer, PatchEmbedding)]
    return value.bind(patches[0]) if isinstance(value, Pattern) and patches else None
