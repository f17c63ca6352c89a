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

    def steps(self, one: datetime, other: datetime) -> float:
        """Return the number of steps from one date to another; a fraction if it is not whole."""
        if self.months:
            months = (other.year - one.year) * 12 + other.month - one.month
            whole = months // self.months
            return whole if self.after(one, whole) == other else whole + 0.5
        if self.weekdays:
            weeks = (other - timedelta(other.weekday()) - one + timedelta(one.weekday())) / (
                timedelta(7)
            )
            return weeks * 5 + other.weekday() - one.weekday() if other.weekday() < 5 else 0.5
        return (other - one).total_seconds() / self.seconds

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
    for part in (stripped[:1], stripped):
        dates = pandas.to_datetime(part, format=format, errors="coerce", utc=zone)
        if dates.isna().any():
            return None
    found: list[datetime] = dates.to_pydatetime().tolist()
    return [date.replace(tzinfo=UTC) for date in found] if zone else found


def is_date_column(texts: Sequence[str]) -> bool:
    """Return whether all cells are dates of one format; dates without separators must be sorted."""
    for format_ in FORMATS:
        dates = parse_dates(texts, format_)
        if dates:
            rising = {later > earlier for earlier, later in pairwise(dates)}
            return format_ not in DIGITS or len(rising) == 1
    return False


def read_dates(table: Table, column: str, named: str) -> tuple[list[datetime], Step]:
    """Read the dates in a column, and the step between them; an empty format is detected."""
    texts = table.texts("data.date", column)
    read = {one: parse_dates(texts, one) for one in ([named] if named else FORMATS)}
    known = {one: dates for one, dates in read.items() if dates}
    if not known or len(texts) < 3:
        if known:
            got = f"{counted(len(texts), 'date')} in {table.path.name}"
            remedy = "add rows with later dates"
        else:
            row = _first_unread(texts, [named] if named else FORMATS)
            got = f"{texts[row][:40]!r} in row {table.line(row)} of {table.path.name}"
            remedy = "correct this date, or name the format, such as --data.date_format %d.%m.%Y"
        raise ArgumentError(
            "data.date",
            expected=f"at least three dates of one format in column {column!r}",
            got=got,
            remedy=remedy,
        )
    regular: dict[str, tuple[float, Step]] = {}
    for format_, dates in known.items():
        step = _step_of(sorted(dates), format_)
        if step is not None:
            regular[format_] = step.steps(min(dates), max(dates)), step
    if not regular:
        _refuse_irregular(table, column, next(iter(known.values())))
    fewest = min(count for count, _ in regular.values())
    best = {one: step for one, (count, step) in regular.items() if count == fewest}
    if len({tuple(known[one]) for one in best}) > 1:
        raise ArgumentError(
            "data.date_format",
            expected=f"an unambiguous date format in column {column!r}",
            got=f"{texts[0]!r}, which fits {', '.join(best)}",
            remedy=f"name the format, such as --data.date_format {next(iter(best))}",
        )
    format_, step = next(iter(best.items()))
    return known[format_], step


def read_times(table: Table, argument: str, column: str) -> list[float]:
    """Return the numbers in a column, such as years, or its dates as seconds since 1970."""
    texts = table.texts(argument, column)
    numbers = as_numbers(table.frame[column], table.delimiter)
    if not numbers.isna().any():
        return [float(number) for number in numbers]
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    found: dict[tuple[int, ...], list[float]] = {}
    for format_ in FORMATS:
        dates = parse_dates(texts, format_) or []
        times = [(date.replace(tzinfo=date.tzinfo or UTC) - zero).total_seconds() for date in dates]
        if times:
            found[tuple(sorted(range(len(times)), key=times.__getitem__))] = times
    if len(found) == 1:
        return next(iter(found.values()))
    row = 0 if found else _first_unread(texts, FORMATS)
    raise ArgumentError(
        argument,
        expected=f"numbers, or dates of one format, in column {column!r}",
        got=f"{texts[row][:40]!r} in row {table.line(row)} of {table.path.name}"
        + ", which fits several formats" * bool(found),
        remedy="write all dates in the form 2024-01-31",
    )


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
        next((row for row, text in enumerate(texts) if not parse_dates([text], one)), 0)
        for one in formats
    )


def _step_of(dates: Sequence[datetime], format_: str) -> Step | None:
    """Return the step of ascending dates, some of which may be missing; ``None`` if irregular."""
    differences = [later - earlier for earlier, later in pairwise(dates) if later != earlier]
    if not differences:
        return None
    usual = Counter(differences).most_common(1)[0][0].total_seconds()
    found = [Step(format_, seconds=usual)]
    if usual == DAY and all(date.weekday() < 5 for date in dates) and len(dates) > 5:
        found.insert(0, Step(format_, weekdays=True))
    ends = all(date.day == calendar.monthrange(date.year, date.month)[1] for date in dates)
    if ends or len({date.day for date in dates}) == 1:
        months = Counter(
            (b.year - a.year) * 12 + b.month - a.month for a, b in pairwise(dates) if a != b
        )
        usual_months = months.most_common(1)[0][0]
        if usual_months > 0:
            found.insert(0, Step(format_, months=usual_months, last=ends))
    for step in found:
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
