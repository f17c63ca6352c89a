"""What happens to a recipe: trained, resumed, repeated, compared, recorded, asked to write."""

from __future__ import annotations

from edgewise.runs.compare import Comparison, compare
from edgewise.runs.generation import translate, write
from edgewise.runs.recipe_fields import Field, recipe_fields, with_values
from edgewise.runs.record import from_record, load_recipe, to_record
from edgewise.runs.seeds import evaluate_run, measure, train_folds, train_seeds
from edgewise.runs.train import train

__all__ = [
    "Comparison",
    "Field",
    "compare",
    "evaluate_run",
    "from_record",
    "load_recipe",
    "measure",
    "recipe_fields",
    "to_record",
    "train",
    "train_folds",
    "train_seeds",
    "translate",
    "with_values",
    "write",
]


def __dir__() -> list[str]:
    return __all__
