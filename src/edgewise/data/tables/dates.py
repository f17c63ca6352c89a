"""Dates as people write them, and the step from one to the next.

A column is of dates where one format reads all of it. Where several do, as with 03/04/2020, the one
that leaves the fewest dates missing is meant.
"""

from __future__ import annotations

import calendar
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from edgewise.data.tables.table import Table
from edgewise.errors import ArgumentError

DAYS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y"),
)
TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", "T%H:%M:%S%z", " %H:%M:%S%z")
MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%b %Y", "%B %Y", "%b-%Y", "%b-%y")
FORMATS = (*(day + time for day in DAYS for time in TIMES), *MONTHS, "%Y%m%d", "%Y")
DIGITS = {"%Y%m%d": 8, "%Y": 4}  # where a format would also read numbers that are no dates
DAY = 24 * 3600
SEASONS = {3600: 24, DAY: 7, 7 * DAY: 52, 1800: 48, 900: 96, 600: 144, 300: 288}
MANY = 0.2  # missing dates, as a share, from which on they are not filled in


class Step(NamedTuple):
    """From one date to the next, and how dates are written.

    Attributes:
        format: as ``strftime`` has it.
        months: of a step, on the same day of the month; 0 where it is another.
        last: whether that is the month's last day.
        seconds: of a step that is always as long.
        weekdays: whether it goes from Friday to Monday.

    """

    format: str
    months: int = 0
    last: bool = False
    seconds: float = 0.0
    weekdays: bool = False

    def after(self, date: datetime, count: int) -> datetime:
        """The date so many steps after another."""
        if self.months:
            year, month = divmod(date.year * 12 + date.month - 1 + self.months * count, 12)
            length = calendar.monthrange(year, month + 1)[1]
            day = length if self.last else min(date.day, length)
            return date.replace(year=year, month=month + 1, day=day)
        if self.weekdays:
            weeks, day = divmod(date.weekday() + count, 5)
            return date + timedelta(days=7 * weeks + day - date.weekday())
        return date + timedelta(seconds=self.seconds * count)

    def steps(self, one: datetime, other: datetime) -> float:
        """Steps from one date to another; whole where both belong to the same series."""
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
        """As the file writes it."""
        return date.strftime(self.format)

    @property
    def season(self) -> int:
        """Steps after which such series usually repeat themselves."""
        if self.months:
            return max(1, 12 // self.months)
        return 5 if self.weekdays else SEASONS.get(int(self.seconds), 1)


class Dates(NamedTuple):
    """The dates of the rows of a table, and the step between them."""

    dates: list[datetime]
    step: Step


def parse_dates(texts: Sequence[str], format: str) -> list[datetime] | None:
    """The dates, in UTC where zones are given; ``None`` where the format does not read one."""
    found = []
    for text in texts:
        stripped = text.strip()
        if format in DIGITS and len(stripped) != DIGITS[format]:
            return None
        try:
            date = datetime.strptime(stripped, format)
        except ValueError:
            return None
        found.append(date.astimezone(UTC) if date.tzinfo else date)
    return found


def is_date_column(texts: Sequence[str]) -> bool:
    """Whether one format reads all; a column of four digits has to rise or fall throughout."""
    for format_ in FORMATS:
        dates = parse_dates(texts, format_)
        if dates:
            rising = {later > earlier for earlier, later in pairwise(dates)}
            return format_ not in DIGITS or len(rising) == 1
    return False


def read_dates(table: Table, column: str, named: str) -> Dates:
    """The dates in a column of a table.

    Args:
        table: has the column.
        column: its name.
        named: the format; "" finds it.

    Raises:
        ArgumentError: no format reads all; the dates of two rows are the same; they are not
            regular; or two formats read them equally well. Names the row.

    """
    texts = table.texts("data.date", column)
    read = {one: parse_dates(texts, one) for one in ([named] if named else FORMATS)}
    known = {one: dates for one, dates in read.items() if dates}
    if not known or len(texts) < 3:
        row = _first_unread(texts, [named] if named else FORMATS)
        raise ArgumentError(
            "data.date",
            expected=f"dates in column {column!r}, at least three, all written alike",
            got=f"{texts[row][:40]!r} in row {table.line(row)} of {table.path.name}",
            remedy="correct it, or say how they are written, such as --data.date_format %d.%m.%Y",
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
            expected=f"one way to read the dates in column {column!r}",
            got=f"{texts[0]!r}, which is any of {', '.join(best)}",
            remedy=f"name it, such as --data.date_format {next(iter(best))}",
        )
    format_, step = next(iter(best.items()))
    return Dates(known[format_], step)


def check_distinct(table: Table, dates: Sequence[Any]) -> None:
    """No two rows have one date.

    Raises:
        ArgumentError: two have; names both.

    """
    first: dict[Any, int] = {}
    for row, date in enumerate(dates):
        if date in first:
            raise ArgumentError(
                "data.date",
                expected="a row for each date",
                got=f"{date} in rows {table.line(first[date])} and {table.line(row)} of "
                f"{table.path.name}",
                remedy="keep one of them, or make a file for each series",
            )
        first[date] = row


def _first_unread(texts: Sequence[str], formats: Sequence[str]) -> int:
    """The row that the format that reads most of those before it does not read."""
    return max(
        next((row for row, text in enumerate(texts) if not parse_dates([text], one)), 0)
        for one in formats
    )


def _step_of(dates: Sequence[datetime], format_: str) -> Step | None:
    """The step of sorted dates, of which some may be missing; ``None`` where they are irregular."""
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
        expected=f"dates at regular steps in column {column!r}; the usual one is {usual}",
        got=f"{dates[wrong[1]]} after {dates[wrong[0]]}, in row {table.line(wrong[1])} of "
        f"{table.path.name}",
        remedy="bring the table to one row a day, week or month, such as by sums or means",
    )
