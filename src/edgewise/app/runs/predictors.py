"""Table of predictors, and the choice of the predictor for a run."""

from __future__ import annotations

from collections.abc import Iterator

from edgewise._utils.errors import ArgumentError
from edgewise.app.kinds.graphs.predict import GraphClasses
from edgewise.app.kinds.images.predict import ImageClasses
from edgewise.app.kinds.items.predict import Recommendations
from edgewise.app.kinds.language.predict import Continuations, HiddenWords, TextEmbeddings
from edgewise.app.kinds.links.predict import LinkSuggestions
from edgewise.app.kinds.molecules.predict import HiddenAtoms, MoleculeProperties, PenalisedLogP
from edgewise.app.kinds.nodes.predict import NodeClasses, NodeProperties
from edgewise.app.kinds.plugins import plugins
from edgewise.app.kinds.series.predict import Forecasts
from edgewise.app.kinds.tags.predict import WordTags
from edgewise.app.kinds.texts.predict import SentenceClasses, SentenceProperties
from edgewise.app.kinds.translation.predict import Translations
from edgewise.app.predict.predictor import Predictor
from edgewise.app.train.recipe import Recipe

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
        >>> from edgewise.app.runs import predictor_of
        >>> from edgewise.app.kinds import find
        >>> predictor_of(find("molecules")).__name__
        'MoleculeProperties'
    """
    for kind in all_predictors():
        if kind.serves(recipe):
            return kind
    raise ArgumentError(
        "run",
        expected=f"a run on {', '.join(sorted({kind.input for kind in all_predictors()}))}",
        got=f"a run of {recipe.name}: {type(recipe.data).__name__}, {type(recipe.task).__name__}",
        remedy="load its weights with edgewise.app.train.RunFolder(path).load_weights(model), or "
        "add a Predictor in a package, as docs/howto/own_recipes.md shows",
    )
