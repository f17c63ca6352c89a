"""Simple baselines, which are evaluated with the splits and metrics of a recipe."""

from __future__ import annotations

from edgewise.baselines.candidate import Candidate, NoBaselineError, Score, Writer
from edgewise.baselines.kinds import Kind
from edgewise.baselines.measure import (
    Baseline,
    baselines,
    best_of,
    is_large,
    lower_is_better,
    main_metric,
)

__all__ = [
    "Baseline",
    "Candidate",
    "Kind",
    "NoBaselineError",
    "Score",
    "Writer",
    "baselines",
    "best_of",
    "is_large",
    "lower_is_better",
    "main_metric",
]


def __dir__() -> list[str]:
    return __all__
