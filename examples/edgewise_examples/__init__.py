"""Recipes for teaching, with their data sets, tasks, predictors and baselines.

This package declares an entry point ``edgewise_examples`` in the group ``edgewise.kinds``. Edgewise
therefore imports this module and reads ``KIND``.
"""

from __future__ import annotations

from edgewise.app.kinds import Kind
from edgewise_examples.baselines import BASELINES
from edgewise_examples.data import DATA
from edgewise_examples.inference import PREDICTORS
from edgewise_examples.recipes import RECIPES
from edgewise_examples.tasks import TASKS

KIND = Kind("teaching", RECIPES, DATA, TASKS, PREDICTORS, BASELINES)

__all__ = ["KIND"]
