"""Baselines for the example recipes."""

from __future__ import annotations

from edgewise.app.kinds import Baselines
from edgewise.app.train import Classification
from edgewise_examples.data.caption_digits import CaptionDigits
from edgewise_examples.data.ewt_trees import EWTTrees
from edgewise_examples.data.quickdraw import QuickDraw
from edgewise_examples.tasks import Captioning

BASELINES = (
    Baselines("captions", "caption-digits", CaptionDigits, (Captioning,), f"{__name__}.captions"),
    Baselines("sketches", "sketches", QuickDraw, (Classification,), f"{__name__}.sketches"),
    Baselines(
        "syntax trees", "tree-lstm-ewt", EWTTrees, (Classification,), f"{__name__}.syntax_trees"
    ),
)
