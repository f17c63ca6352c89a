"""Recipes for teaching, with their data sets, tasks, predictors and baselines.

The entry point ``edgewise_examples`` of the group ``edgewise.recipes`` names this module; Edgewise
reads the five tables below from it.
"""

from __future__ import annotations

from edgewise_examples.baselines import BASELINES
from edgewise_examples.data import DATA
from edgewise_examples.inference import PREDICTORS
from edgewise_examples.recipes import RECIPES
from edgewise_examples.tasks import TASKS

__all__ = ["BASELINES", "DATA", "PREDICTORS", "RECIPES", "TASKS"]
