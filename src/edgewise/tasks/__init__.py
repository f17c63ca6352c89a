"""Tasks: the loss to train on and the metrics to report."""

from __future__ import annotations

from edgewise.tasks.classification import Classification as classification
from edgewise.tasks.regression import Regression as regression
from edgewise.tasks.task import Task

TASKS: dict[str, type[Task]] = {"classification": classification, "regression": regression}
"""Every task by the name that run folders use."""

__all__ = ["TASKS", "Task", "classification", "regression"]
