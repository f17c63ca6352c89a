"""Tasks of the example recipes."""

from __future__ import annotations

from edgewise.app.train.task import Task
from edgewise_examples.tasks.captioning import Captioning
from edgewise_examples.tasks.extraction import Extraction

TASKS: dict[str, type[Task]] = {"captioning": Captioning, "extraction": Extraction}
"""Dict from the names of tasks in run folders to task classes."""

__all__ = ["TASKS", "Captioning", "Extraction"]
