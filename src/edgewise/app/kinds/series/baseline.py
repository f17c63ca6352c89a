"""Baselines of forecasting: seasonal naive, ridge regression and exponential smoothing.

The mean of each history (the past values of a window) is subtracted before ridge regression. The
result is divided by the standard deviation of all training histories, so that penalties suit any
unit, or in "standardised ridge regression" by that of the history. Exponential smoothing is the
additive method of Holt and Winters with a damped trend, fitted to each standardised history.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from edgewise._utils.errors import require
from edgewise.app.train.baseline import Candidate, Score, batches_of
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.app.train.standardisation import is_constant

PENALTIES = tuple(10.0 ** (k / 2) for k in range(-8, 10))


def candidates(_recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield each baseline with each setting."""
    season = splits.model_arguments["season"]
    yield Candidate("seasonal naive", "", lambda: seasonal_naive)
    yield Candidate("seasonal naive", "with drift", lambda: partial(with_drift, season))
    for spread, penalty in product((False, True), PENALTIES):
        name = "standardised ridge regression" if spread else "ridge regression"
        fit = partial(_ridge, splits, penalty, spread=spread)
        yield Candidate(name, f"penalty {penalty:g}", fit)
    smoothing = partial(smoothed, season)
    yield Candidate("exponential smoothing", "", lambda: smoothing, slow=True)


def seasonal_naive(batch: Batch) -> Tensor:
    """Return the forecast that repeats the values of the last season, ``[B, H]``."""
    last: Tensor = batch.target[..., 1]
    return last


def with_drift(season: int, batch: Batch) -> Tensor:
    """Return the values of the last season plus the change of the series over this season."""
    history, seasonal = batch.inputs[0], batch.target[..., 1]
    season_ago = history[:, -1 - season] if history.shape[1] > season else history[:, 0]
    forecast: Tensor = seasonal + (history[:, -1] - season_ago)[:, None]
    return forecast


def _normalised(history: Tensor, usual_std: Tensor, spread: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return standardised histories and a constant feature 1, their means and their scales."""
    std, mean = torch.std_mean(history, dim=1, keepdim=True)
    scale = torch.where(is_constant(mean, std), usual_std, std) if spread else usual_std
    scale = scale.expand_as(mean)
    return torch.cat([(history - mean) / scale, torch.ones_like(mean)], dim=1), mean, scale


def _ridge(splits: Splits, penalty: float, *, spread: bool) -> Score:
    batches = list(batches_of(splits.train))
    history = torch.cat([batch.inputs[0] for batch in batches])
    future = torch.cat([batch.target[..., 0] for batch in batches])
    usual_std = history.std(dim=1).square().mean().sqrt()
    x, mean, scale = _normalised(history, usual_std, spread)
    model = Ridge(alpha=penalty, fit_intercept=False).fit(
        x.numpy(), ((future - mean) / scale).numpy()
    )

    def score(batch: Batch) -> Tensor:
        x, mean, scale = _normalised(batch.inputs[0], usual_std, spread)
        scaled = torch.from_numpy(model.predict(x.numpy()).reshape(len(x), -1))
        forecast: Tensor = mean + scale * scaled
        return forecast

    return score


def smoothed(season: int, batch: Batch) -> Tensor:
    """Return forecasts ``[B, H]`` by exponential smoothing, fitted to each history of a batch."""
    require("statsmodels", extra="series", purpose="exponential smoothing")
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    history, horizon = batch.inputs[0].double().numpy(), batch.target.shape[1]
    seasonal = season > 1 and history.shape[1] >= 2 * season
    options = {"seasonal": "add", "seasonal_periods": season} if seasonal else {}
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The optimiser may stop before it converges.
        for values in history:
            # The tolerance of the optimiser is absolute.
            mean, std = values.mean(), values.std() or 1.0
            model = ExponentialSmoothing(
                (values - mean) / std, trend="add", damped_trend=True, **options
            )
            rows.append(mean + std * model.fit().forecast(horizon))
    return torch.from_numpy(np.stack(rows))
