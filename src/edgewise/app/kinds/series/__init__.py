"""TODO."""

from __future__ import annotations

from edgewise.app.kinds.series.data import TimeSeries
from edgewise.app.kinds.series.task import Forecast

__all__ = ["Forecast", "TimeSeries"]


def __dir__() -> list[str]:
    return __all__
