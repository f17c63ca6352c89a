"""Choice of the baselines for a recipe, by the classes of its data and task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from edgewise import tasks
from edgewise.baselines import items, links
from edgewise.baselines.candidate import Candidate
from edgewise.data.graphs.interactions import Interactions
from edgewise.data.graphs.links import Links
from edgewise.errors import ArgumentError
from edgewise.recipes.recipe import Recipe

Candidates = Callable[[Recipe, Any], Iterator[Candidate]]
KINDS: tuple[tuple[type, type, Candidates], ...] = (
    (Links, tasks.LinkPrediction, links.candidates),
    (Interactions, tasks.Recommendation, items.candidates),
)
"""Base class of the data, class of the task, and their baselines."""


class NoBaselineError(ArgumentError):
    """Error: a recipe's task has no baselines."""


def kind_of(recipe: Recipe) -> Candidates:
    """Return the baselines of a recipe.

    Raises:
        NoBaselineError: there are none for its data and task.
    """
    for of_data, of_task, candidates in KINDS:
        if isinstance(recipe.data, of_data) and isinstance(recipe.task, of_task):
            return candidates
    known = sorted({of_task.__name__ for _, of_task, _ in KINDS})
    raise NoBaselineError(
        "recipe",
        expected=f"a recipe with a task that has baselines: {', '.join(known)}",
        got=f"{recipe.name}, with {type(recipe.data).__name__} and {type(recipe.task).__name__}",
        remedy="choose another recipe, or compare models with `edgewise compare`",
    )
