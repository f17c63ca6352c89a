"""Reasons for forecast values: the time steps of the history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from edgewise._utils.digits import rounded
from edgewise.app.kinds.series.predict import Forecasts, steps_of
from edgewise.app.predict.cases import output_rows
from edgewise.explain.attribution import Case


def forecast(predictor: Forecasts, value: Any, _: int) -> Iterator[Case]:
    """Yield a case for each forecast value, whose members are the time steps of the history."""
    series = predictor.prepare(value)
    (history,), out, scores = output_rows(predictor, value)
    count = history.shape[-1]
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
