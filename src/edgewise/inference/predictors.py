"""Table of predictors, and the choice of the predictor for a run."""

from __future__ import annotations

from collections.abc import Iterator

from edgewise.errors import ArgumentError
from edgewise.inference.graphs import GraphClasses
from edgewise.inference.images import ImageClasses
from edgewise.inference.molecules import HiddenAtoms, MoleculeProperties, PenalisedLogP
from edgewise.inference.nodes import LinkSuggestions, NodeClasses, NodeProperties
from edgewise.inference.predictor import Predictor
from edgewise.inference.recommendations import Recommendations
from edgewise.inference.series import Forecasts
from edgewise.inference.text import (
    Continuations,
    HiddenWords,
    SentenceClasses,
    SentenceProperties,
    TextEmbeddings,
    Translations,
    WordTags,
)
from edgewise.plugins import plugins
from edgewise.recipes.recipe import Recipe

PREDICTORS: tuple[type[Predictor], ...] = (
    Continuations,
    Forecasts,
    GraphClasses,
    HiddenAtoms,
    HiddenWords,
    ImageClasses,
    LinkSuggestions,
    MoleculeProperties,
    NodeClasses,
    NodeProperties,
    PenalisedLogP,
    Recommendations,
    SentenceClasses,
    SentenceProperties,
    TextEmbeddings,
    Translations,
    WordTags,
)
"""Predictors of Edgewise; ``all_predictors`` adds those of installed packages."""


def all_predictors() -> Iterator[type[Predictor]]:
    """Yield the predictors of Edgewise, then those of installed packages."""
    yield from PREDICTORS
    for plugin in plugins():
        yield from plugin.predictors


def predictor_of(recipe: Recipe) -> type[Predictor]:
    """Return the first predictor that supports runs of a recipe.

    Raises:
        ArgumentError: no predictor supports the recipe's data and task.

    Example:
        >>> from edgewise import inference, recipes
        >>> inference.predictor_of(recipes.find("molecules")).__name__
        'MoleculeProperties'
    """
    for kind in all_predictors():
        if kind.serves(recipe):
            return kind
    raise ArgumentError(
        "run",
        expected=f"a run on {', '.join(sorted({kind.input for kind in all_predictors()}))}",
        got=f"a run of {recipe.name}: {type(recipe.data).__name__}, {type(recipe.task).__name__}",
        remedy="load its weights with edgewise.training.RunFolder(path).load_weights(model), or "
        "add a Predictor in a package, as docs/howto/own_recipes.md shows",
    )
