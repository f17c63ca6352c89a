"""Kinds of recipes that have baselines; a recipe's kind follows from its data and its task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from edgewise.app.kinds.graphs.data import GraphData
from edgewise.app.kinds.images import baseline as images
from edgewise.app.kinds.images.data import ImageData
from edgewise.app.kinds.items import baseline as items
from edgewise.app.kinds.items.data import Interactions
from edgewise.app.kinds.items.task import Recommendation
from edgewise.app.kinds.language import baseline as language
from edgewise.app.kinds.language import masked_baseline as masked_words
from edgewise.app.kinds.language.data import TextStream
from edgewise.app.kinds.language.masked_text import MaskedText
from edgewise.app.kinds.language.task import LanguageModeling, MaskedLanguageModeling
from edgewise.app.kinds.links import baseline as links
from edgewise.app.kinds.links.data import Links
from edgewise.app.kinds.links.task import LinkPrediction
from edgewise.app.kinds.molecules import masked_baseline as masked_molecules
from edgewise.app.kinds.molecules.data import MoleculeTable
from edgewise.app.kinds.molecules.masked_molecules import MaskedMolecules
from edgewise.app.kinds.molecules.zinc import ZINC
from edgewise.app.kinds.nodes import baseline as nodes
from edgewise.app.kinds.nodes.data import NodeData
from edgewise.app.kinds.nodes.task import Consistency
from edgewise.app.kinds.plugins import plugins
from edgewise.app.kinds.series import baseline as series
from edgewise.app.kinds.series.data import TimeSeries
from edgewise.app.kinds.series.task import Forecast
from edgewise.app.kinds.tags import baseline as tags
from edgewise.app.kinds.tags.data import TaggedWords
from edgewise.app.kinds.texts import baseline as texts
from edgewise.app.kinds.texts.data import LabelledSentences
from edgewise.app.kinds.translation import baseline as translation
from edgewise.app.kinds.translation.data import TextPairs
from edgewise.app.kinds.translation.task import Translation
from edgewise.app.train import tree_baselines as trees
from edgewise.app.train.baseline import Candidate, NoBaselineError
from edgewise.app.train.preprocessing import Preprocessing
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.tasks.classification import Classification
from edgewise.app.train.tasks.property_prediction import PropertyPrediction
from edgewise.app.train.tasks.regression import Regression
from edgewise.app.train.tasks.text_classification import Tagging, TextClassification

Candidates = Callable[[Recipe, Any], Iterator[Candidate]]


class Kind(NamedTuple):
    """Kind of recipe, such as link prediction, with the function that gives its baselines.

    Attributes:
        name: name of what these recipes predict, such as "links", for messages.
        example: name of one of these recipes.
        data: base class of their data, or several classes.
        tasks: classes of their task.
        candidates: function that yields baselines with their settings, given a recipe and its
            loaded data.
        is_large: function that returns whether reading the data and all candidates together take
            more than about a minute, given the properties of the data that a run folder stores.
        modules: modules that the methods use. They are imported before processor time is measured,
            so that no method is charged for start-up.
    """

    name: str
    example: str
    data: type | tuple[type, ...]
    tasks: tuple[type, ...]
    candidates: Candidates
    is_large: Callable[[Preprocessing], bool] = lambda _: False
    modules: tuple[str, ...] = ("scipy.sparse",)

    def has(self, recipe: Recipe) -> bool:
        """Return whether a recipe is of this kind."""
        return isinstance(recipe.data, self.data) and type(recipe.task) in self.tasks


KINDS = (
    Kind("links", "sage-facebook", Links, (LinkPrediction,), links.candidates),
    Kind("users and items", "lightgcn-gowalla", Interactions, (Recommendation,), items.candidates),
    Kind(
        "classes of nodes",
        "gcn-cora",
        NodeData,
        (Classification, Consistency),
        nodes.candidates,
        nodes.is_large,
        ("scipy.sparse", "sklearn.linear_model", "torch_geometric.nn"),
    ),
    Kind(
        "classes of graphs",
        "gin-mutag",
        GraphData,
        (Classification,),
        trees.candidates,
        trees.is_large,
        trees.MODULES,
    ),
    Kind(
        "molecules",
        "gin-esol",
        (ZINC, MoleculeTable),
        (PropertyPrediction, Regression),
        trees.candidates,
        trees.is_large,
        trees.MODULES,
    ),
    Kind(
        "masked molecules",
        "masked-molecules",
        MaskedMolecules,
        (Classification,),
        masked_molecules.candidates,
        modules=("sklearn.ensemble",),
    ),
    Kind(
        "images",
        "digits",
        ImageData,
        (Classification,),
        images.candidates,
        images.is_large,
        ("sklearn.linear_model", "sklearn.neighbors", "sklearn.pipeline"),
    ),
    Kind(
        "texts",
        "sst2",
        LabelledSentences,
        (TextClassification,),
        texts.candidates,
        texts.is_large,
        ("sklearn.feature_extraction.text", "sklearn.linear_model"),
    ),
    Kind("tags of words", "tag-ewt", TaggedWords, (Tagging,), tags.candidates),
    Kind(
        "language models", "gpt-shakespeare", TextStream, (LanguageModeling,), language.candidates
    ),
    Kind(
        "masked words",
        "bert-wikitext",
        MaskedText,
        (MaskedLanguageModeling,),
        masked_words.candidates,
        masked_words.is_large,
    ),
    Kind(
        "pairs of texts",
        "transformer-multi30k",
        TextPairs,
        (Translation,),
        translation.candidates,
        translation.is_large,
        ("scipy.sparse", "sklearn.feature_extraction.text"),
    ),
    Kind(
        "series",
        "forecast",
        TimeSeries,
        (Forecast,),
        series.candidates,
        modules=("sklearn.linear_model",),
    ),
)
"""Kinds of recipes in Edgewise. Packages add kinds with a tuple named ``BASELINES``."""


def kind_of(recipe: Recipe) -> Kind:
    """Return the kind of a recipe.

    Raises:
        NoBaselineError: there are no baselines for its data and task.
    """
    known: list[Kind] = [*KINDS, *(kind for plugin in plugins() for kind in plugin.baselines)]
    for kind in known:
        if kind.has(recipe):
            return kind
    raise NoBaselineError(
        "recipe",
        expected="a recipe with baselines, on "
        + ", ".join(f"{kind.name} (such as {kind.example})" for kind in known),
        got=f"{recipe.name}: {recipe.summary}",
        remedy="choose another recipe, or compare models with `edgewise compare`",
    )
