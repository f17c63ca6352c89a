"""Train, resume, evaluate, compare and store recipes (settings of model, data and training)."""

from __future__ import annotations

from edgewise.runs.comparison import Comparison, compare
from edgewise.runs.paired import Paired, paired_test, paired_tests, per_example_metrics
from edgewise.runs.recipe_fields import Field, fields_of, with_values
from edgewise.runs.record import from_record, load_recipe, to_record
from edgewise.runs.seeds import evaluate_run, measure, train_folds, train_seeds
from edgewise.runs.train_recipe import train

__all__ = [
    "Comparison",
    "Field",
    "Paired",
    "compare",
    "evaluate_run",
    "fields_of",
    "from_record",
    "load_recipe",
    "measure",
    "paired_test",
    "paired_tests",
    "per_example_metrics",
    "to_record",
    "train",
    "train_folds",
    "train_seeds",
    "with_values",
]


def __dir__() -> list[str]:
    return __all__
