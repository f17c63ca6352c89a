"""Baselines for the example recipes."""

from __future__ import annotations

from edgewise.baselines import Kind
from edgewise.tasks import Classification
from edgewise_examples.baselines import sketches
from edgewise_examples.data.quickdraw import QuickDraw

BASELINES = (Kind("sketches", "sketches", QuickDraw, (Classification,), sketches.candidates),)
