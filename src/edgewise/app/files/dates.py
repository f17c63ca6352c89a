"""Dates in common formats, and the time step between consecutive dates.

A column holds dates if every cell has the same format. If several formats fit, as with 03/04/2020,
the format with the fewest missing dates is used. ``pandas.infer_freq`` is not used, because it
finds no step if a date is missing, and up to a fifth of the dates may be missing.
"""

from __future__ import annotations

import calendar
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgewise._utils.errors import ArgumentError, counted
from edgewise.app.files.frames import pandas_for
from edgewise.app.files.table import Table, as_numbers

DAYS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y"),
)
TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", "T%H:%M:%S%z", " %H:%M:%S%z")
MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%b %Y", "%B %Y", "%b-%Y", "%b-%y")
FORMATS = (*(day + time for day in DAYS for time in TIMES), *MONTHS, "%Y%m%d", "%Y")
DIGITS = {"%Y%m%d": 8, "%Y": 4}  # Required number of digits, which excludes other numbers.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 24 * 3600
SEASONS = {3600: 24, DAY: 7, 7 * DAY: 52, 1800: 48, 900: 96, 600: 144, 300: 288}
MANY = 0.2  # Maximum fraction of missing dates, which are interpolated.


class Step(NamedTuple):
    """Step between consecutive dates: months (at the last day of each month if ``last``), business
    days, or seconds; and the ``strftime`` format of the dates.
    """

    format: str
    months: int = 0
    last: bool = False
    seconds: float = 0.0
    weekdays: bool = False

    def after(self, date: datetime, count: int) -> datetime:
        """Return the date that is ``count`` steps after ``date``."""
        pandas = pandas_for("reading dates")
        if self.weekdays:
            step = pandas.offsets.BDay(count)
        elif self.months:
            step = pandas.DateOffset(months=self.months * count)
        else:
            step = timedelta(seconds=self.seconds * count)
        after: datetime = (pandas.Timestamp(date) + step).to_pydatetime()
        if self.months and self.last:
            after = after.replace(day=calendar.monthrange(after.year, after.month)[1])
        return after

    def steps(self, start: datetime, end: datetime) -> float:
        """Return the number of steps from one date to another; a fraction if it is not whole."""
        if self.months:
            months = (end.year - start.year) * 12 + end.month - start.month
            count = months // self.months
            return count if self.after(start, count) == end else count + 0.5
        if self.weekdays:
            count = int(np.busday_count(start.date(), end.date()))
            return count if end.weekday() < 5 else count + 0.5
        return (end - start).total_seconds() / self.seconds

    def text(self, date: datetime) -> str:
        """Return the date in the format of the file."""
        return date.strftime(self.format)

    @property
    def season(self) -> int:
        """Default season length, in steps, such as 12 for months."""
        if self.months:
            return max(1, 12 // self.months)
        return 5 if self.weekdays else SEASONS.get(int(self.seconds), 1)


def parse_dates(texts: Sequence[str], format: str) -> list[datetime] | None:
    """Parse dates, to UTC if they have time zones; ``None`` if one does not have the format."""
    stripped = [text.strip() for text in texts]
    if format in DIGITS and any(len(text) != DIGITS[format] for text in stripped):
        return None
    # Try the first date before all others, because most formats fail on it.
    pandas = pandas_for("reading dates")
    zone = "%z" in format
    for cells in (stripped[:1], stripped):
        parsed = pandas.to_datetime(cells, format=format, errors="coerce", utc=zone)
        if parsed.isna().any():
            return None
    dates: list[datetime] = parsed.to_pydatetime().tolist()
    return [date.replace(tzinfo=UTC) for date in dates] if zone else dates


def is_date_column(texts: Sequence[str]) -> bool:
    """Return whether all cells are dates of one format; dates without separators must be sorted."""
    for format_ in FORMATS:
        dates = parse_dates(texts, format_)
        if dates:
            rising = {later > earlier for earlier, later in pairwise(dates)}
            return format_ not in DIGITS or len(rising) == 1
    return False


def read_dates(table: Table, column: str, date_format: str) -> tuple[list[datetime], Step]:
    """Return the dates in a column and the step between them; detect the format if it is empty."""
    texts = table.texts("data.date", column)
    formats = [date_format] if date_format else FORMATS
    parsed = {format_: dates for format_ in formats if (dates := parse_dates(texts, format_))}
    if not parsed or len(texts) < 3:
        if parsed:
            got = f"{counted(len(texts), 'date')} in {table.path.name}"
            remedy = "add rows with later dates"
        else:
            row = _first_unread(texts, formats)
            got = f"{texts[row][:40]!r} in row {table.line(row)} of {table.path.name}"
            remedy = "correct this date, or name the format, such as --data.date_format %d.%m.%Y"
        raise ArgumentError(
            "data.date",
            expected=f"at least three dates of one format in column {column!r}",
            got=got,
            remedy=remedy,
        )
    regular: dict[str, tuple[float, Step]] = {}
    for format_, dates in parsed.items():
        step = _step_of(sorted(dates), format_)
        if step is not None:
            regular[format_] = step.steps(min(dates), max(dates)), step
    if not regular:
        _refuse_irregular(table, column, next(iter(parsed.values())))
    fewest = min(count for count, _ in regular.values())
    best = {format_: step for format_, (count, step) in regular.items() if count == fewest}
    if len({tuple(parsed[format_]) for format_ in best}) > 1:
        raise ArgumentError(
            "data.date_format",
            expected=f"an unambiguous date format in column {column!r}",
            got=f"{texts[0]!r}, which fits {', '.join(best)}",
            remedy=f"name the format, such as --data.date_format {next(iter(best))}",
        )
    format_, step = next(iter(best.items()))
    return parsed[format_], step


def read_times(table: Table, argument: str, column: str) -> list[float]:
    """Return the numbers in a column, such as years, or its dates as seconds since 1970."""
    texts = table.texts(argument, column)
    numbers = as_numbers(table.frame[column], table.delimiter)
    if not numbers.isna().any():
        return [float(number) for number in numbers]
    times_by_order: dict[tuple[int, ...], list[float]] = {}
    for format_ in FORMATS:
        dates = parse_dates(texts, format_) or []
        times = [
            (date.replace(tzinfo=date.tzinfo or UTC) - EPOCH).total_seconds() for date in dates
        ]
        if times:
            times_by_order[tuple(sorted(range(len(times)), key=times.__getitem__))] = times
    if len(times_by_order) == 1:
        return next(iter(times_by_order.values()))
    row = 0 if times_by_order else _first_unread(texts, FORMATS)
    raise ArgumentError(
        argument,
        expected=f"numbers, or dates of one format, in column {column!r}",
        got=f"{texts[row][:40]!r} in row {table.line(row)} of {table.path.name}"
        + ", which fits several formats" * bool(times_by_order),
        remedy="write all dates in the form 2024-01-31",
    )


def moments(texts: Sequence[str] | NDArray[np.object_]) -> NDArray[np.float64]:
    """Return numbers, and dates of ISO 8601 as seconds since 1970; NaN for other texts."""
    pandas = pandas_for("reading dates")
    cells = pandas.Series(texts, dtype=str).str.strip()
    values = as_numbers(cells)
    if values.isna().any():
        cells = cells.where(cells.str.match(r"\d"))  # pandas would read "now" as a date.
        dates = pandas.to_datetime(cells, format="ISO8601", errors="coerce", utc=True)
        values = values.fillna((dates - EPOCH).dt.total_seconds())
    seconds: NDArray[np.float64] = values.to_numpy()
    return seconds


def check_distinct(table: Table, dates: Sequence[Any]) -> None:
    """Raise ArgumentError, which names both rows, if two rows have the same date."""
    first: dict[Any, int] = {}
    for row, date in enumerate(dates):
        if date in first:
            raise ArgumentError(
                "data.date",
                expected="one row for each date",
                got=f"{date} in rows {table.line(first[date])} and {table.line(row)} of "
                f"{table.path.name}",
                remedy="keep one of these rows, or save each series in its own file",
            )
        first[date] = row


def _first_unread(texts: Sequence[str], formats: Sequence[str]) -> int:
    """Return the first row that the format with the most parsed rows before it cannot parse."""
    return max(
        next((row for row, text in enumerate(texts) if not parse_dates([text], format_)), 0)
        for format_ in formats
    )


def _step_of(dates: Sequence[datetime], format_: str) -> Step | None:
    """Return the step of ascending dates, some of which may be missing; ``None`` if irregular."""
    differences = [later - earlier for earlier, later in pairwise(dates) if later != earlier]
    if not differences:
        return None
    usual = Counter(differences).most_common(1)[0][0].total_seconds()
    steps = [Step(format_, seconds=usual)]
    if usual == DAY and all(date.weekday() < 5 for date in dates) and len(dates) > 5:
        steps.insert(0, Step(format_, weekdays=True))
    ends = all(date.day == calendar.monthrange(date.year, date.month)[1] for date in dates)
    if ends or len({date.day for date in dates}) == 1:
        months = Counter(
            (b.year - a.year) * 12 + b.month - a.month for a, b in pairwise(dates) if a != b
        )
        usual_months = months.most_common(1)[0][0]
        if usual_months > 0:
            steps.insert(0, Step(format_, months=usual_months, last=ends))
    for step in steps:
        if all(float(step.steps(a, b)).is_integer() for a, b in pairwise(dates)):
            return step
    return None


def _refuse_irregular(table: Table, column: str, dates: Sequence[datetime]) -> None:
    order = sorted(range(len(dates)), key=dates.__getitem__)
    usual = Counter(dates[b] - dates[a] for a, b in pairwise(order)).most_common(1)[0][0]
    wrong = next(
        (
            (a, b)
            for a, b in pairwise(order)
            if not usual or ((dates[b] - dates[a]) / usual) % 1 or dates[a] == dates[b]
        ),
        (order[0], order[1]),
    )
    check_distinct(table, dates)
    raise ArgumentError(
        "data.date",
        expected=f"dates at regular steps in column {column!r}; the usual step is {usual}",
        got=f"{dates[wrong[1]]} after {dates[wrong[0]]}, in row {table.line(wrong[1])} of "
        f"{table.path.name}",
        remedy="resample the table to one row per day, week or month, such as by sums or means",
    )
