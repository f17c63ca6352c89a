"""Tasks of the example recipes."""

from __future__ import annotations

from edgewise_examples.tasks.captioning import Captioning
from edgewise_examples.tasks.extraction import Extraction

TASKS = {"captioning": Captioning, "extraction": Extraction}
"""Tasks by the name that run folders use."""

__all__ = ["TASKS", "Captioning", "Extraction"]
