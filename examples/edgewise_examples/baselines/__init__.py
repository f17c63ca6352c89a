"""Baselines for the example recipes."""

from __future__ import annotations

from edgewise.app.kinds import Baselines
from edgewise.app.train import Classification
from edgewise_examples.baselines import captions, sketches, syntax_trees
from edgewise_examples.data.caption_digits import CaptionDigits
from edgewise_examples.data.ewt_trees import EWTTrees
from edgewise_examples.data.quickdraw import QuickDraw
from edgewise_examples.tasks import Captioning

BASELINES = (
    Baselines("captions", "caption-digits", CaptionDigits, (Captioning,), captions.candidates),
    Baselines("sketches", "sketches", QuickDraw, (Classification,), sketches.candidates),
    Baselines(
        "syntax trees", "tree-lstm-ewt", EWTTrees, (Classification,), syntax_trees.candidates
    ),
)
