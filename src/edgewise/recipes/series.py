"""Recipe of forecasting on a table with a column of dates and one of numbers."""

from __future__ import annotations

from functools import partial

from edgewise import data, models, tasks, training
from edgewise.recipes.recipe import Recipe

series = Recipe(
    name="series",
    summary="Causal Transformer forecasts a column of your table: --data.path mine.csv",
    model=partial(models.forecaster, width=32, depth=2, heads=4, ffn_dim=64, dropout=0.2),
    data=data.time_series(batch_size=32, windows=6_400),
    # The mean absolute error has the same meaning in every unit.
    task=tasks.Forecast(delta=0.0),
    optimizer=training.OptimizerSettings("adamw", lr=3e-4, weight_decay=0.01),
    schedule=training.LinearSchedule(warmup=0.1),
    trainer=training.TrainerSettings(
        epochs=40, monitor="val/mae", mode="min", ema_decay=0.99, clip_norm=1.0
    ),
)
