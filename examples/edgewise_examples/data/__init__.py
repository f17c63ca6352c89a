"""Data sets for the example recipes."""

from __future__ import annotations

from edgewise.app.train.splits import Data
from edgewise_examples.data.caption_digits import CaptionDigits as caption_digits
from edgewise_examples.data.csl import CSL as csl
from edgewise_examples.data.dictionary_lookup import DictionaryLookup as dictionary_lookup
from edgewise_examples.data.digit_rows import DigitRows as digit_rows
from edgewise_examples.data.duplication import Duplication as duplication
from edgewise_examples.data.ewt_trees import EWTTrees as ewt_trees
from edgewise_examples.data.hollywood_actors import HollywoodActors as hollywood_actors
from edgewise_examples.data.neighbors_match import NeighborsMatch as neighbors_match
from edgewise_examples.data.quickdraw import QuickDraw as quickdraw
from edgewise_examples.data.recall import Recall as recall
from edgewise_examples.data.rings import Rings as rings
from edgewise_examples.data.wiki_summaries import WikiSummaries as wiki_summaries

DATA: dict[str, type[Data]] = {
    "caption_digits": caption_digits,
    "csl": csl,
    "dictionary_lookup": dictionary_lookup,
    "digit_rows": digit_rows,
    "duplication": duplication,
    "ewt_trees": ewt_trees,
    "hollywood_actors": hollywood_actors,
    "neighbors_match": neighbors_match,
    "quickdraw": quickdraw,
    "recall": recall,
    "rings": rings,
    "wiki_summaries": wiki_summaries,
}
"""Dict from the names of data sets in recipes and run folders to their classes."""

__all__ = [
    "DATA",
    "caption_digits",
    "csl",
    "dictionary_lookup",
    "digit_rows",
    "duplication",
    "ewt_trees",
    "hollywood_actors",
    "neighbors_match",
    "quickdraw",
    "recall",
    "rings",
    "wiki_summaries",
]
