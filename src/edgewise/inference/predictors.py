"""Which predictor answers for which runs."""

from __future__ import annotations

from edgewise.errors import ArgumentError
from edgewise.inference.continuations import Continuations
from edgewise.inference.drawn_texts import DrawnTextAnswers
from edgewise.inference.graph_classes import GraphClasses
from edgewise.inference.hidden_atoms import HiddenAtoms
from edgewise.inference.hidden_words import HiddenWords
from edgewise.inference.image_answers import Captions, ImageClasses
from edgewise.inference.link_suggestions import LinkSuggestions
from edgewise.inference.lookups import DictionaryAnswers, LeafAnswers
from edgewise.inference.molecules import MoleculeProperties
from edgewise.inference.node_classes import NodeClasses
from edgewise.inference.penalised_logp import PenalisedLogP
from edgewise.inference.predictor import Predictor
from edgewise.inference.recommendations import Recommendations
from edgewise.inference.sentences import SentenceClasses
from edgewise.inference.series import Forecasts
from edgewise.inference.sketches import SketchClasses
from edgewise.inference.summaries import Summaries
from edgewise.inference.tags import WordTags
from edgewise.inference.translations import Translations
from edgewise.inference.trees import TreeLabels
from edgewise.recipes.recipe import Recipe

PREDICTORS: tuple[type[Predictor], ...] = (
    Captions,
    Continuations,
    DictionaryAnswers,
    DrawnTextAnswers,
    Forecasts,
    GraphClasses,
    HiddenAtoms,
    HiddenWords,
    ImageClasses,
    LeafAnswers,
    LinkSuggestions,
    MoleculeProperties,
    NodeClasses,
    PenalisedLogP,
    Recommendations,
    SentenceClasses,
    SketchClasses,
    Summaries,
    Translations,
    TreeLabels,
    WordTags,
)
"""Every kind of answer there is."""


def predictor_of(recipe: Recipe) -> type[Predictor]:
    """The kind of answers that runs of a recipe give.

    Raises:
        ArgumentError: there is none for its data and task.

    """
    for kind in PREDICTORS:
        if kind.serves(recipe):
            return kind
    raise ArgumentError(
        "run",
        expected=f"one that answers on {', '.join(sorted({kind.input for kind in PREDICTORS}))}",
        got=f"a run of {recipe.name}: {type(recipe.data).__name__}, {type(recipe.task).__name__}",
        remedy="read its weights into your model with edgewise.training.RunFolder(path)"
        ".load_weights(model), or write a Predictor for it, as CONTRIBUTING.md shows",
    )
