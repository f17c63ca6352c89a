"""Choice of the baselines for a recipe, by the classes of its data and task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from edgewise.baselines import images, items, language, links, nodes, series, tags, texts, trees
from edgewise.baselines.candidate import Candidate, NoBaselineError
from edgewise.data.graphs.graph_data import GraphData
from edgewise.data.graphs.interactions import Interactions
from edgewise.data.graphs.links import Links
from edgewise.data.graphs.node_data import NodeData
from edgewise.data.images.image_data import ImageData
from edgewise.data.molecules.molecule_table import MoleculeTable
from edgewise.data.molecules.zinc import ZINC
from edgewise.data.series.time_series import TimeSeries
from edgewise.data.text.labelled_sentences import LabelledSentences
from edgewise.data.text.tagged_words import TaggedWords
from edgewise.data.text.text_stream import TextStream
from edgewise.recipes.recipe import Recipe
from edgewise.tasks import (
    Classification,
    Consistency,
    Forecast,
    LanguageModeling,
    LinkPrediction,
    PropertyPrediction,
    Recommendation,
    Regression,
    Tagging,
    TextClassification,
)

Candidates = Callable[[Recipe, Any], Iterator[Candidate]]
KINDS: tuple[tuple[type, tuple[type, ...], Candidates], ...] = (
    (Links, (LinkPrediction,), links.candidates),
    (Interactions, (Recommendation,), items.candidates),
    (NodeData, (Classification, Consistency), nodes.candidates),
    (GraphData, (Classification,), trees.candidates),
    (ZINC, (Regression,), trees.candidates),
    (MoleculeTable, (PropertyPrediction, Regression), trees.candidates),
    (ImageData, (Classification,), images.candidates),
    (LabelledSentences, (TextClassification,), texts.candidates),
    (TaggedWords, (Tagging,), tags.candidates),
    (TextStream, (LanguageModeling,), language.candidates),
    (TimeSeries, (Forecast,), series.candidates),
)
"""Base class of the data, classes of the task, and their baselines."""


def kind_of(recipe: Recipe) -> Candidates:
    """Return the baselines of a recipe.

    Raises:
        NoBaselineError: there are none for its data and task.
    """
    for of_data, of_task, candidates in KINDS:
        if isinstance(recipe.data, of_data) and type(recipe.task) in of_task:
            return candidates
    known = sorted({task.__name__ for _, of_task, _ in KINDS for task in of_task})
    raise NoBaselineError(
        "recipe",
        expected=f"a recipe with a task that has baselines: {', '.join(known)}",
        got=f"{recipe.name}, with {type(recipe.data).__name__} and {type(recipe.task).__name__}",
        remedy="choose another recipe, or compare models with `edgewise compare`",
    )
