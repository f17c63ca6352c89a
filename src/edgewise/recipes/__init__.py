"""Recipes by name. A recipe consists of a model, a data set, a task and hyperparameters."""

from __future__ import annotations

from edgewise.arguments import check_choice
from edgewise.plugins import Registry
from edgewise.recipes import (
    bert,
    images,
    language_modeling,
    links,
    molecules,
    nodes,
    recommendation,
    series,
    tagging,
    text_classification,
    translation,
    tu,
    zinc,
)
from edgewise.recipes.recipe import Protocol, Recipe

_MODULES = (
    *(images, nodes, links, recommendation, tu, zinc, molecules, series),
    *(bert, language_modeling, text_classification, tagging, translation),
)

RECIPES: Registry[Recipe] = Registry(
    "RECIPES",
    {
        recipe.name: recipe
        for module in _MODULES
        for recipe in vars(module).values()
        if isinstance(recipe, Recipe)
    },
)
"""Recipes by name, including those that installed packages add."""


def find(name: str) -> Recipe:
    """Return the recipe of this name.

    Raises:
        ArgumentError: the name is unknown; the error suggests the most similar name.

    Example:
        >>> from edgewise import recipes
        >>> recipes.find("digits").trainer.monitor
        'val/loss'
    """
    if name not in RECIPES.own:
        check_choice("recipe", name, RECIPES)
    return RECIPES[name]


__all__ = ["RECIPES", "Protocol", "Recipe", "find"]


def __dir__() -> list[str]:
    return __all__
