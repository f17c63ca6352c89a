"""Time-series forecasting, on a table or on three series of statsmodels.

Sources of the series (public domain): weekly CO2 concentration at Mauna Loa, 1958 to 2001 (Keeling
and Whorf); monthly sea temperature off Peru, 1950 to 2010 (NOAA); yearly sunspot numbers, 1700 to
2008 (National Geophysical Data Center).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice, check_features, check_range, check_shares
from edgewise._utils.errors import ArgumentError, counted, require
from edgewise.app.files.dates import (
    MANY,
    Step,
    check_distinct,
    is_date_column,
    parse_dates,
    read_dates,
)
from edgewise.app.files.files import naming
from edgewise.app.files.frames import Source, open_source, pandas_for, take_frames
from edgewise.app.files.read_table import read_table
from edgewise.app.files.table import Table, as_number, check_varies, is_missing
from edgewise.app.files.target_columns import note_target
from edgewise.app.train.batches import Batch
from edgewise.app.train.splits import Data, Split, Splits

Bundled = Literal["co2", "elnino", "sunspots"]
SEASONS: dict[Bundled, int] = {"co2": 52, "elnino": 12, "sunspots": 11}
SHORT = 4  # Seasons below this length do not determine the default history and horizon.


class Series(NamedTuple):
    """Values at regular time steps, float64 ``[N]``, with last date and step if they are known."""

    values: Tensor
    last: datetime | None = None
    step: Step | None = None

    def date(self, ahead: int) -> str | int:
        """Return the date ``ahead`` steps after the last value; without dates, ``ahead``."""
        if self.step is None or self.last is None:
            return ahead
        return self.step.text(self.step.after(self.last, ahead))


@dataclass(frozen=True)
class TimeSeries(Data):
    """Windows of a time series: ``history`` input values and the following ``horizon`` values.

    The series is split in time: training on the first part, test on windows whose horizon lies in
    the last part. Batches are in float64: inputs ``(history [B, T],)`` and targets
    ``[B, horizon, 3]``: the value; the seasonal naive forecast, which is the last known value at
    the same point of the season; and the mean absolute error of this forecast one season ahead in
    the training part, which is the unit of the loss of :class:`edgewise.app.kinds.series.Forecast`.

    Attributes:
        name: series of statsmodels, used without ``path``. Missing values (59 weeks of ``"co2"``)
            are interpolated linearly.
        path: the user's own table or data frame, with one row per time step.
        target: column of the values; ``""`` for the only numeric column.
        date: column of the dates; ``""`` for the only one that can be parsed as dates, if any, and
            ``"none"`` to keep the order of the rows. With dates, rows are sorted by date. Up to a
            fifth of the dates and values may be missing: they are interpolated linearly, with a
            warning. Without dates, a missing value is an error.
        date_format: format of the dates, such as ``%d.%m.%Y``; ``""`` infers it.
        season: season length in steps. 0 uses the season of the statsmodels series, or the usual
            season for the step of the dates: 4 quarters, 12 months, 52 weeks, 7 days (5 if weekends
            are skipped), one day for steps of 5, 10, 15, 30 or 60 minutes, and 1 in other cases.
        history: number of input values, at least 2; 0 for three seasons if the series is long
            enough.
        horizon: number of values to forecast; 0 for one season (8 values if the season is below 4),
            but at most the length of the validation part.
        val, test: fractions of the series used for validation and test, at its end.
        batch_size: windows per batch.
        windows: training windows sampled per epoch; 0 for all.

    The end of the series, from which forecasts start, is saved with a trained model.

    Example:
        >>> import pandas as pd
        >>> from edgewise.app.kinds.series import TimeSeries
        >>> sales = pd.DataFrame({"sales": [100 + i % 12 for i in range(240)]})
        >>> splits = TimeSeries(path=sales, season=12, history=24, horizon=12).load()
        >>> splits.model_arguments
        {'history': 24, 'horizon': 12, 'season': 12}
    """

    comes_with = "statsmodels, or a file of your own"
    section = "Sequences"

    name: Bundled | None = None
    path: Source = ""
    target: str = ""
    date: str = ""
    date_format: str = ""
    season: int = 0
    history: int = 0
    horizon: int = 0
    val: float = 0.1
    test: float = 0.2
    batch_size: int = 64
    windows: int = 0

    provides: ClassVar[tuple[str, ...]] = ("history", "horizon", "season")

    def __post_init__(self) -> None:
        take_frames(self, "path")
        if self.name is not None:
            check_choice("data.name", self.name, get_args(Bundled))
        least = {"history": 0, "horizon": 0, "batch_size": 1, "season": 0, "windows": 0}
        for name, lowest in least.items():
            check_range(f"data.{name}", getattr(self, name), "choose for example 52", least=lowest)
        if self.history == 1:  # The standard deviation of one value is undefined.
            check_range("data.history", 1, "choose for example 52", least=2)
        held_out = {"data.val": self.val, "data.test": self.test}
        check_shares(held_out, "choose for example 0.1 and 0.2")
        if self.history and self.season > self.history:
            raise ArgumentError(
                "data.season",
                expected="a season of at most data.history time steps",
                got=f"{self.season} with a history of {self.history}",
                remedy="choose a shorter season, such as 12 for monthly data, or a longer history",
            )

    def load(self) -> Splits:
        with naming(*filter(None, [self.path])):
            return self._load()

    def _load(self) -> Splits:
        series, names = self._read()
        values = series.values
        history, horizon, season = self._sizes(series)
        if season > history:
            raise ArgumentError(
                "data.history",
                expected=f"at least {season} steps, the length of a season",
                got=str(history),
                remedy="choose a longer history",
            )
        bounds = [round(len(values) * end) for end in (1 - self.val - self.test, 1 - self.test)]
        split_starts: list[Tensor] = []
        for first, stop in zip([history, *bounds], [*bounds, len(values)], strict=True):
            # First steps of the horizons. A history may reach into the preceding part.
            starts = torch.tensor(range(max(first, history), stop - horizon + 1))
            if not len(starts):
                raise ArgumentError(
                    "data.history, data.horizon",
                    expected="windows of data.history + data.horizon values that fit into every "
                    "part of the series",
                    got=f"history {history}, horizon {horizon} and {counted(len(values), 'value')}",
                    remedy="choose a shorter history or horizon, or other fractions data.val and "
                    "data.test",
                )
            split_starts.append(starts)
        train_values, file = values[: bounds[0]], open_source(self.path)
        check_varies(train_values, "data.target", names["column"], file)
        unit = _seasonal_error(train_values, season)
        train, val, test = (
            _split(values, starts, (history, horizon, season), unit) for starts in split_starts
        )
        sizes = {"history": history, "horizon": horizon, "season": season}
        train = replace(train, draw=self.windows or None)
        preprocessing = {
            **names,
            "step": series.step and series.step._asdict(),
            "last": series.last and series.last.isoformat(),
            "series": values[-history - horizon :].clone(),
        }
        return Splits(sizes, train, val, test, self.batch_size, preprocessing=preprocessing)

    def _read(self) -> tuple[Series, dict[str, str]]:
        """Return the series, and the names of its value and date columns."""
        if self.path:
            return self._of_table()
        if self.name is None:
            raise ArgumentError(
                "data.path",
                expected="a table with a series",
                got="none",
                remedy="name a table with --data.path, or with --data.name one of the series "
                + ", ".join(SEASONS),
            )
        return _bundled(self.name), {"column": self.name, "date": "date"}

    def _sizes(self, series: Series) -> tuple[int, int, int]:
        """Return history, horizon and season, with defaults that depend on the series."""
        length = len(series.values)
        usual = series.step.season if series.step else 1
        season = self.season or (SEASONS[self.name] if self.name and not self.path else usual)
        far = season if season >= SHORT else 2 * SHORT
        horizon = self.horizon or max(1, min(far, int(length * self.val)))
        return self.history or max(season, 2, min(3 * far, length // 3)), horizon, season

    def _of_table(self) -> tuple[Series, dict[str, str]]:
        table = _named(read_table(self.path))
        date = self.date
        if not date:
            others = (name for name in table.columns if name != self.target)
            dated = [name for name in others if is_date_column(table.columns[name])]
            date = table.choose("data.date", "", dated, "the column of dates") if dated else "none"
        free = [name for name in table.numeric if name != date]
        candidates = [name for name in free if not table.counts_rows(name)] or free
        what = "the column of numbers to forecast"
        column = table.choose("data.target", self.target, candidates, what)
        if not self.target:
            note_target(column, "the only column of numbers that has no other use")
        numbers = {column, *table.numeric}
        words = [name for name in table.columns if name not in numbers]
        if words and not self.date and date == "none":
            warnings.warn(
                f"no column of {table.path.name} can be parsed as dates "
                f"({', '.join(map(repr, words))}), so the rows are taken as consecutive time "
                "steps; to use dates, set --data.date and --data.date_format",
                stacklevel=2,
            )
        if date == "none":
            return Series(_undated(table, column)), {"column": column, "date": ""}
        dates, step = read_dates(table, date, self.date_format)
        return dated_series(table, column, dates, step), {"column": column, "date": date}


def _named(table: Table) -> Table:
    """Add column names to a table whose first row is data."""
    *date, value = table.columns
    if len(date) > 1 or math.isnan(as_number(value, table.delimiter)):
        return table
    if date and not is_date_column([date[0], *table.columns[date[0]]]):
        return table
    return table.without_header([*["date"] * len(date), "value"])


def _seasonal_error(values: Tensor, season: int) -> float:
    """Return the mean absolute seasonal difference of a series, or its standard deviation if 0."""
    difference = (values[season:] - values[:-season]).abs()
    error = float(difference.mean()) if len(difference) else 0.0
    return error or float(values.std(correction=0))


def _split(values: Tensor, starts: Tensor, sizes: tuple[int, int, int], unit: float) -> Split:
    """Return the windows of a split, whose horizons begin at ``starts``."""
    history, horizon, season = sizes
    steps, ahead = torch.arange(-history, 0), torch.arange(horizon)
    last_season = ahead - season * (ahead // season + 1)

    def make(index: Tensor) -> Batch:
        start = starts[index][:, None]
        value = values[start + ahead]
        columns = value, values[start + last_season], torch.full_like(value, unit)
        target = torch.stack(columns, dim=-1)
        return Batch((values[start + steps],), target)

    return Split(len(starts), make)


def history_of(table: Table, column: str, date: str, step: Step | None) -> Series:
    """Read a series whose dates have the format and step of the training data, if it has dates."""
    if not date or step is None:
        return Series(_undated(table, column))
    texts = table.texts("data.date", date)
    dates = parse_dates(texts, step.format)
    if dates is None:
        row = next(i for i, text in enumerate(texts) if parse_dates([text], step.format) is None)
        raise ArgumentError(
            "data.date",
            expected=f"dates such as {step.text(datetime(2020, 12, 31))} in column {date!r}",
            got=f"{texts[row][:40]!r} in row {table.line(row)} of {table.path.name}",
            remedy="write the dates in the format of the training table",
        )
    return dated_series(table, column, dates, step)


def dated_series(table: Table, column: str, dates: Sequence[datetime], step: Step) -> Series:
    """Return a column in order of date; missing dates are interpolated, with a warning."""
    check_distinct(table, dates)
    order = sorted(range(len(dates)), key=dates.__getitem__)
    first, last = dates[order[0]], dates[order[-1]]
    texts = table.texts("data.target", column)
    rows = [row for row in order if not is_missing(texts[row])]
    remedy = "correct it, or leave it blank to interpolate it linearly"
    numbers = table.only(rows).numbers("data.target", [column], remedy)[:, 0]
    positions = [step.steps(first, dates[row]) for row in rows]
    for row, position in zip(rows, positions, strict=True):
        if not float(position).is_integer():
            raise ArgumentError(
                "data.date",
                expected=f"dates that are a whole number of time steps after {step.text(first)}",
                got=f"{step.text(dates[row])} in row {table.line(row)} of {table.path.name}",
                remedy="resample the table to the step of the training data",
            )
    pandas = pandas_for("reading dates")
    values = pandas.Series(numbers.numpy(), positions).reindex(
        range(int(step.steps(first, last)) + 1)
    )
    missing = values.index[values.isna()]
    if len(missing):
        missing_dates = [step.text(step.after(first, int(position))) for position in missing]
        _report_missing(table, missing_dates, len(values))
        values = values.interpolate(limit_direction="both")
    return Series(torch.from_numpy(values.to_numpy(copy=True)), last, step)


def _report_missing(table: Table, missing: Sequence[str], length: int) -> None:
    listed = ", ".join(missing[:3]) + ", ..." * (len(missing) > 3)
    got = f"{len(missing)} of {length} dates without a value ({listed})"
    if len(missing) > MANY * length:
        raise ArgumentError(
            "data.date",
            expected=f"values for at least 4/5 of the dates in {table.path.name}",
            got=got,
            remedy="resample the table to a longer step, or use a part of the table without gaps",
        )
    warnings.warn(f"{table.path.name}: {got}, interpolated linearly", stacklevel=4)


def _undated(table: Table, column: str) -> Tensor:
    # Dropping the row would shift all later values within the season.
    remedy = "fill in this value, such as the mean of its neighbours, or name another column"
    return table.numbers("data.target", [column], remedy)[:, 0]


def _bundled(name: Bundled) -> Series:
    require("statsmodels", extra="series", purpose=f"the series {name}")
    from statsmodels import datasets

    table = getattr(datasets, name).load_pandas().data
    if name == "co2":
        last, step = table.index[-1].to_pydatetime(), Step("%Y-%m-%d", seconds=7 * 24 * 3600.0)
        table = table.interpolate()
    elif name == "elnino":  # The table has a row for each year and a column for each month.
        last, step = datetime(int(table["YEAR"].iloc[-1]), 12, 1), Step("%Y-%m", months=1)
        table = table.drop(columns="YEAR").stack()
    else:
        last, step = datetime(int(table["YEAR"].iloc[-1]), 1, 1), Step("%Y", months=12)
        table = table["SUNACTIVITY"]
    series = torch.tensor(table.to_numpy(), dtype=torch.double).flatten()
    check_features(series[:, None])
    return Series(series, last, step)
