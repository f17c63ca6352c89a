"""Time series to forecast: windows, and what came after. Three real ones come with statsmodels.

Sources (public domain): CO2 in the air of Mauna Loa by the week, 1958 to 2001 (Keeling and Whorf);
the temperature of the sea off Peru by the month, 1950 to 2010 (NOAA); sunspots by the year, 1700 to
2008 (National Geophysical Data Center).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from edgewise.arguments import check_choice, check_features, check_least, check_shares
from edgewise.batches import Batch
from edgewise.data.files import naming
from edgewise.data.splits import Data, Split, Splits
from edgewise.data.table import read_table
from edgewise.errors import ArgumentError, require

Bundled = Literal["co2", "elnino", "sunspots"]
SEASONS: dict[Bundled, int] = {"co2": 52, "elnino": 12, "sunspots": 11}


@dataclass(frozen=True)
class TimeSeries(Data):
    """Windows of a series: ``history`` values to read and the ``horizon`` values after them.

    The series is cut in time: the model is trained on the first part, and tested on windows whose
    horizon lies wholly in the last. Batches: inputs ``(history [B, T],)`` and targets
    ``[B, horizon, 2]``: the value, and what the last season says, which is the value one season (or
    as many whole seasons as it takes) before.

    Attributes:
        name: a series that statsmodels brings; values that are missing there (59 weeks of ``co2``)
            are filled on a straight line.
        path: a table of your own instead, with a row for each point in time.
        column: of that table.
        season: steps after which the series repeats itself; 0 takes the bundled series' own.
        history: T, at least 2.
        horizon: how many steps ahead.
        val, test: shares of the time, at the end.
        batch_size: windows in a batch.

    """

    name: Bundled = "co2"
    path: str = ""
    column: str = "value"
    season: int = 0
    history: int = 156
    horizon: int = 52
    val: float = 0.1
    test: float = 0.2
    batch_size: int = 64

    provides: ClassVar[tuple[str, ...]] = ("history", "horizon", "season")

    def __post_init__(self) -> None:
        check_choice("data.name", self.name, get_args(Bundled))
        # One value has no deviation, which a model divides by.
        for name, least in (("history", 2), ("horizon", 1), ("batch_size", 1)):
            check_least(f"data.{name}", getattr(self, name), least, "choose for example 52")
        held_out = {"data.val": self.val, "data.test": self.test}
        check_shares(held_out, "choose for example 0.1 and 0.2")
        if not (1 if self.path else 0) <= self.season <= self.history:
            raise ArgumentError(
                "data.season",
                expected="the steps of a season, at most data.history",
                got=f"{self.season} with a history of {self.history}",
                remedy="choose for example 12 for months, and a longer history",
            )

    def load(self) -> Splits:
        with naming(*filter(None, [self.path])):
            return self._load()

    def _load(self) -> Splits:
        series = _of_table(Path(self.path), self.column) if self.path else _bundled(self.name)
        season = self.season or SEASONS[self.name]
        if season > self.history:
            raise ArgumentError(
                "data.history",
                expected=f"at least a season, {season} steps",
                got=repr(self.history),
                remedy="read a longer history",
            )
        bounds = [round(len(series) * share) for share in (1 - self.val - self.test, 1 - self.test)]
        parts: list[Split] = []
        for first, stop in zip([self.history, *bounds], [*bounds, len(series)], strict=True):
            # Where the horizon begins; the history may reach back into the part before.
            starts = torch.tensor(range(max(first, self.history), stop - self.horizon + 1))
            if not len(starts):
                raise ArgumentError(
                    "data.history, data.horizon",
                    expected="windows that fit into every part of the series",
                    got=f"{self.history} and {self.horizon}, of {len(series)} values",
                    remedy="choose a shorter history or horizon, or larger shares",
                )
            parts.append(self._split(series, starts, season))
        sizes = {"history": self.history, "horizon": self.horizon, "season": season}
        train, val, test = parts
        return Splits(sizes, train, val, test, self.batch_size)

    def _split(self, series: Tensor, starts: Tensor, season: int) -> Split:
        steps, ahead = torch.arange(-self.history, 0), torch.arange(self.horizon)
        before = ahead - season * (ahead // season + 1)

        def make(index: Tensor) -> Batch:
            start = starts[index][:, None]
            target = torch.stack([series[start + ahead], series[start + before]], dim=-1)
            return Batch((series[start + steps],), target)

        return Split(len(starts), make)


def _of_table(path: Path, column: str) -> Tensor:
    # Without its row, all that comes after would be a step too early for its season.
    remedy = "fill in this value, such as the mean of its neighbours, or name another column"
    return read_table(path).numbers("data.column", [column], remedy)[:, 0]


def _bundled(name: Bundled) -> Tensor:
    require("statsmodels", extra="series", purpose=f"the series {name}")
    from statsmodels import datasets

    table = getattr(datasets, name).load_pandas().data
    if name == "co2":
        table = table.interpolate()
    elif name == "elnino":  # a row is a year of months
        table = table.drop(columns="YEAR").stack()
    else:
        table = table["SUNACTIVITY"]
    series = torch.tensor(table.to_numpy(), dtype=torch.float32).flatten()
    check_features(series[:, None])
    return series
