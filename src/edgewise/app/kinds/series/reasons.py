"""Reasons for a prediction, and its explanation: series."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from edgewise._utils.digits import rounded
from edgewise._utils.errors import counted
from edgewise.app.kinds.series.predict import Forecasts
from edgewise.app.predict.cases import _rows
from edgewise.explain.attribution import Case


def steps_of(series: Any, count: int) -> list[str]:
    """Return names of the last time steps of a series: dates, or numbers from the end.

    Args:
        series: the series.
        count: number of steps.
    """
    if series.step:
        return [str(series.date(step - count + 1)) for step in range(count)]
    return [f"{counted(count - 1 - step, 'step')} before the end" for step in range(count)]


def _forecast(predictor: Forecasts, value: Any, _: int) -> Iterator[Case]:
    """Yield a case for each forecast value, whose members are the time steps of the history."""
    series = predictor.prepare(value)
    given, out, scores = _rows(predictor, value)
    count = given[0].shape[-1]
    labels = steps_of(series, count)
    for ahead in range(out.shape[-1]):
        yield Case(
            lambda ahead=ahead: scores()[0, ahead : ahead + 1],  # type: ignore[misc]
            torch.arange(count),
            labels,
            f"step {ahead + 1}: {rounded(float(out[0, ahead]))}",
            is_odds=False,
            best="attention",
        )
