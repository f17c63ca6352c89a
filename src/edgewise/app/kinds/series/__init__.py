"""Forecasts of time series."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.series import reasons, recipes
from edgewise.app.kinds.series.data import TimeSeries
from edgewise.app.kinds.series.predict import Forecasts
from edgewise.app.kinds.series.task import Forecast

__all__ = ["KIND", "Forecast", "TimeSeries"]

KIND = Kind(
    "series",
    recipes=recipes_in(recipes),
    data={"time_series": TimeSeries},
    tasks={"forecast": Forecast},
    predictors=(Forecasts,),
    baselines=(
        Baselines(
            "series", "forecast", TimeSeries, (Forecast,), "edgewise.app.kinds.series.baseline"
        ),
    ),
    cases={Forecasts: reasons.forecast},
)


def __dir__() -> list[str]:
    return __all__
