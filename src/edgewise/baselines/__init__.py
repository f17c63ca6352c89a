"""Simple baselines, measured with the splits and metrics of a recipe."""

from __future__ import annotations

from edgewise.baselines.candidate import NoBaselineError
from edgewise.baselines.measure import (
    Baseline,
    baselines,
    best_of,
    lower_is_better,
    main_metric,
)

__all__ = ["Baseline", "NoBaselineError", "baselines", "best_of", "lower_is_better", "main_metric"]


def __dir__() -> list[str]:
    return __all__
