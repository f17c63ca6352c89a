"""Predictors for runs of the example recipes."""

from __future__ import annotations

from edgewise_examples.inference.captions import Captions
from edgewise_examples.inference.drawn_texts import DrawnTextAnswers
from edgewise_examples.inference.lookups import DictionaryAnswers, LeafAnswers
from edgewise_examples.inference.sketches import SketchClasses
from edgewise_examples.inference.summaries import Summaries
from edgewise_examples.inference.trees import TreeLabels

PREDICTORS = (
    Captions,
    DictionaryAnswers,
    DrawnTextAnswers,
    LeafAnswers,
    SketchClasses,
    Summaries,
    TreeLabels,
)
