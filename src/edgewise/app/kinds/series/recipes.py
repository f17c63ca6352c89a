"""Recipes of forecasting: weekly CO2 at Mauna Loa, and the user's own table."""

from __future__ import annotations

from functools import partial

from edgewise import models
from edgewise.app.kinds.series.data import TimeSeries
from edgewise.app.kinds.series.task import Forecast
from edgewise.app.train.recipe import OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise.app.train.schedule import LinearSchedule

forecast = Recipe(
    name="forecast",
    summary="Forecaster without attention predicts the CO2 of the next 52 weeks",
    # Two attention layers have a validation MAE of 0.446 ppm instead of 0.443 and are ten times
    # slower, because the next values are nearly linear in the past ones.
    model=partial(models.forecaster, width=32, depth=0, heads=4, ffn_dim=64, dropout=0.1),
    data=TimeSeries(name="co2", history=156, horizon=52, batch_size=64),
    task=Forecast(),
    optimizer=OptimizerSettings("adamw", lr=3e-4, weight_decay=0.01),
    schedule=LinearSchedule(warmup=0.1),
    trainer=TrainerSettings(
        epochs=60, monitor="val/mae", mode="min", ema_decay=0.99, clip_norm=1.0
    ),
    protocol=Protocol(
        ("test/mae", "test/seasonal_ratio"),
        "none",
        "weekly CO2 of Mauna Loa in ppm, 52 weeks ahead, tested on the last fifth of the series; "
        "best epoch by validation",
        seeds=3,
    ),
)

series = Recipe(
    name="series",
    summary="Causal Transformer forecasts a column of your table: --data.path mine.csv",
    model=partial(models.forecaster, width=32, depth=2, heads=4, ffn_dim=64, dropout=0.2),
    data=TimeSeries(batch_size=32, windows=6_400),
    # With delta 0 the loss is the mean absolute error, so that delta need not fit the unit.
    task=Forecast(delta=0.0),
    optimizer=OptimizerSettings("adamw", lr=3e-4, weight_decay=0.01),
    schedule=LinearSchedule(warmup=0.1),
    trainer=TrainerSettings(
        epochs=40, monitor="val/mae", mode="min", ema_decay=0.99, clip_norm=1.0
    ),
)
