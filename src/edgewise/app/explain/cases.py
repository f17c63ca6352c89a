"""Creation of a :class:`Case` for each prediction (answer) of a run, for each kind of run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch

from edgewise._utils.errors import ArgumentError
from edgewise.app.kinds.graphs.predict import GraphClasses
from edgewise.app.kinds.graphs.reasons import _graph_classes
from edgewise.app.kinds.images.predict import ImageClasses
from edgewise.app.kinds.images.reasons import _image
from edgewise.app.kinds.items.predict import Recommendations
from edgewise.app.kinds.items.reasons import _recommended
from edgewise.app.kinds.language.predict import Continuations, HiddenWords
from edgewise.app.kinds.language.reasons import _continuation, _hidden_words
from edgewise.app.kinds.links.predict import LinkSuggestions
from edgewise.app.kinds.links.reasons import _links
from edgewise.app.kinds.molecules.predict import (
    HiddenAtoms,
    MoleculeProperties,
    PenalisedLogP,
)
from edgewise.app.kinds.molecules.reasons import _hidden_atoms, _properties, _property
from edgewise.app.kinds.nodes.predict import NodeClasses, NodeProperties, OnNodes
from edgewise.app.kinds.nodes.reasons import NodeCases, _node
from edgewise.app.kinds.series.predict import Forecasts
from edgewise.app.kinds.series.reasons import _forecast
from edgewise.app.kinds.tags.predict import WordTags
from edgewise.app.kinds.tags.reasons import _tags
from edgewise.app.kinds.texts.predict import SentenceClasses, SentenceProperties
from edgewise.app.kinds.texts.reasons import _sentence, _sentence_properties
from edgewise.app.kinds.translation.predict import Translations
from edgewise.app.kinds.translation.reasons import _translation
from edgewise.app.predict.predictor import Predictor
from edgewise.explain.attribution import Case


def cases(predictor: Predictor, value: Any, *, top: int = 1) -> list[Case]:
    """Return a case for each part of the answer to an input, such as each word of a sentence.

    Args:
        predictor: predictor of a run.
        value: an input, as given to :meth:`edgewise.app.predict.Predictor.prepare`.
        top: number of recommended items or links to explain.

    Raises:
        ArgumentError: the input is invalid, or answers of this kind of run cannot be explained.

    """
    for part in predictor.model.modules():
        # Removing a node from the graph does not remove it from a recurrent network.
        if isinstance(part, torch.nn.RNNBase):
            raise ArgumentError(
                "run",
                expected="a model without recurrent layers, which would still read a removed token",
                got=f"a model with {type(part).__name__}",
                remedy="choose a run of a Transformer or graph network",
            )
    for kind, make in _MAKERS.items():
        if isinstance(predictor, kind):
            return list(make(predictor, value, top))
    raise ArgumentError(
        "run",
        expected=f"a run with one of the predictors {', '.join(kind.__name__ for kind in _MAKERS)}",
        got=f"the predictor {type(predictor).__name__}",
        remedy="pass a Case of your own to edgewise.explain.contributions",
    )


_NODE_CASES: WeakKeyDictionary[OnNodes, NodeCases] = WeakKeyDictionary()
_MAKERS: dict[type[Predictor], Callable[[Any, Any, int], Iterator[Case]]] = {
    Continuations: _continuation,
    Forecasts: _forecast,
    GraphClasses: _graph_classes,
    HiddenAtoms: _hidden_atoms,
    HiddenWords: _hidden_words,
    ImageClasses: _image,
    LinkSuggestions: _links,
    MoleculeProperties: _properties,
    NodeClasses: _node,
    NodeProperties: _node,
    PenalisedLogP: _property,
    Recommendations: _recommended,
    SentenceClasses: _sentence,
    SentenceProperties: _sentence_properties,
    Translations: _translation,
    WordTags: _tags,
}
