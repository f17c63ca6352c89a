"""Train, resume, evaluate, compare and store recipes (settings of model, data and training)."""

from __future__ import annotations

from edgewise.app.runs.baseline_results import (
    Baseline,
    baselines,
    best_of,
    lower_is_better,
    main_metric,
)
from edgewise.app.runs.comparison import Comparison, compare
from edgewise.app.runs.paired import Paired, paired_test, paired_tests, per_example_metrics
from edgewise.app.runs.predictors import predictor_of
from edgewise.app.runs.recipe_fields import Field, fields_of, with_values
from edgewise.app.runs.record import from_record, load_recipe, to_record
from edgewise.app.runs.run import Run, load
from edgewise.app.runs.seeds import evaluate_run, measure, train_folds, train_seeds
from edgewise.app.runs.train_recipe import train

__all__ = [
    "Baseline",
    "Comparison",
    "Field",
    "Paired",
    "Run",
    "baselines",
    "best_of",
    "compare",
    "evaluate_run",
    "fields_of",
    "from_record",
    "load",
    "load_recipe",
    "lower_is_better",
    "main_metric",
    "measure",
    "paired_test",
    "paired_tests",
    "per_example_metrics",
    "predictor_of",
    "to_record",
    "train",
    "train_folds",
    "train_seeds",
    "with_values",
]


def __dir__() -> list[str]:
    return __all__
