"""Reasons for forecast values: the time steps of the history."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.digits import rounded
from edgewise.app.kinds.series.predict import Forecasts, steps_of
from edgewise.app.predict.cases import model_call
from edgewise.explain.attribution import Case


def forecast(predictor: Forecasts, value: Any, _: int) -> Iterator[Case]:
    """Yield a case for each forecast value, whose members are the time steps of the history.

    The inputs are differences from the mean of the history, so that integrated gradients add up to
    the forecast minus this mean. A step is removed by setting its value to this mean, because a
    forecaster also copies and extrapolates values that it does not attend to.
    """
    series = predictor.prepare(value)
    with torch.no_grad():
        (history,), out = model_call(predictor, series)
    count, mean = history.shape[-1], history.mean()
    differences = (history - mean).unsqueeze(-1)
    labels = steps_of(series, count)

    def score(ahead: int, removed: Any = False, _: None = None) -> Tensor:
        values = differences.masked_fill(torch.as_tensor(removed)[..., None], 0.0)
        forecast: Tensor = predictor.model(values.squeeze(-1) + mean)[0, ahead, None]
        return forecast

    for ahead in range(out.shape[-1]):
        yield Case(
            partial(score, ahead),
            torch.arange(count),
            labels,
            f"step {ahead + 1}: {rounded(float(out[0, ahead]))}",
            is_odds=False,
            best="integrated_gradients",
            score_without=partial(score, ahead),
            replacement="the mean of the history",
        )
