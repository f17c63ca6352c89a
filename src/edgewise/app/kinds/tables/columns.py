"""Columns of a database as inputs of a model: numbers, dates and categories of each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.dates import DIGITS, EPOCH, FORMATS, moments, parse_dates
from edgewise.app.files.frames import pandas_for
from edgewise.app.files.reading import log
from edgewise.app.files.table import Table, as_numbers, is_missing
from edgewise.app.kinds.tables.keys import Keys, holds_dates, without_fraction

Numbers = NDArray[np.float64]
Type = Literal["number", "date", "category", "row"]
MOST_VALUES = 200
"""Maximum number of values of a column of categories; columns with more texts are not read."""
FURTHEST = 10.0  # Standardised numbers are clipped to this many standard deviations.


@dataclass(frozen=True)
class Column:
    """Column of a table: its type, the scale of its numbers, and its values with own embeddings.

    A table without columns to read has one column of the type "row", so that each of its rows has
    a cell.
    """

    table: str
    name: str
    type: Type
    mean: float = 0.0
    std: float = 1.0
    values: tuple[str, ...] = ()

    @property
    def num_codes(self) -> int:
        """Number of embeddings: for missing cells, for values without their own, and for each."""
        return 2 + len(self.values)

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Column:
        """Create a column from its record in JSON."""
        return cls(**{**record, "values": tuple(record["values"])})

    def record(self) -> dict[str, Any]:
        """Return the column as a dict for JSON."""
        return asdict(self)

    def scaled(self, numbers: Numbers) -> Numbers:
        """Return standardised numbers; 0 for missing ones."""
        scaled = (numbers - self.mean) / self.std
        return np.nan_to_num(scaled).clip(-FURTHEST, FURTHEST)


class Cells(NamedTuple):
    """Cells of one column: numbers (NaN for none), and the index of the embedding, ``[rows]``."""

    numbers: Numbers
    codes: NDArray[np.int64]


class ParsedColumns:
    """Tables by name, and the numbers of their columns, each of which is parsed once."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self.tables = tables
        self._numbers: dict[tuple[str, str, Type], Numbers] = {}

    def numbers(self, column: Column) -> Numbers:
        """Return the numbers of a column, or its dates as seconds since 1970; NaN for missing cells
        and categories.
        """
        key = column.table, column.name, column.type
        if key not in self._numbers:
            self._numbers[key] = _numbers_of(self.tables[column.table], column)
        return self._numbers[key]


def find_columns(tables: Mapping[str, Table], keys: Keys, target: tuple[str, str]) -> list[Column]:
    """Return the columns to read, with types; key columns and the target have no cells. Columns of
    many texts, and columns with one value, are left out with a note.
    """
    leave_out = {*keys.columns(only_single=True), target}
    columns: list[Column] = []
    for name, table in tables.items():
        of_table = [
            Column(name, column, type_)
            for column in table.columns
            if (name, column) not in leave_out
            and (type_ := _type_of(table, name, column, keys.times.get(name) == column))
        ]
        columns += of_table or [Column(name, "(row)", "row")]
    return columns


def _type_of(table: Table, name: str, column: str, is_time: bool) -> Type | None:
    """Return the type of a column; None to leave it out."""
    if is_time:
        return "date"
    cells = table.columns[column]
    present = Counter(cell.strip() for cell in cells if not is_missing(cell))
    if len(present) < 2 and len(present) + (len(cells) > present.total()) < 2:
        log.info(f"{name}.{column}: all rows have the same value, so the column is not read")
        return None
    if column in table.numeric:
        return "number"
    if holds_dates(cells):
        return "date"
    if len(present) > MOST_VALUES or (len(present) > 20 and 2 * len(present) > present.total()):
        log.info(
            f"{name}.{column}: {len(present):,} different texts, so the column is not read; "
            f"columns of at most {MOST_VALUES} are read as categories"
        )
        return None
    return "category"


def _numbers_of(table: Table, column: Column) -> Numbers:
    numbers = np.full(len(table), np.nan)
    if column.type == "number":
        cells = table.numbers(f"{column.table}.{column.name}", [column.name], allow_missing=True)
        return cells[:, 0].numpy()
    if column.type == "date":
        texts = table.columns[column.name]
        present = [row for row, text in enumerate(texts) if not is_missing(text)]
        if present:
            numbers[present] = _seconds(table, column, present)
    return numbers


def _seconds(table: Table, column: Column, rows: Sequence[int]) -> Numbers:
    """Return dates as seconds since 1970; if all cells are numbers but not dates, the numbers."""
    cells = table.columns[column.name]
    texts = [without_fraction(cells[row]) for row in rows]
    series = pandas_for("reading dates").Series(texts, dtype=str)
    numbers: Numbers = as_numbers(series, table.delimiter).to_numpy()
    is_number = ~np.isnan(numbers)
    if is_number.all():
        return next(_readings(texts, DIGITS), numbers)
    if is_number.any():
        date, number = (rows[int(at(is_number))] for at in (np.argmin, np.argmax))
        got = f"{table.cell(column.name, date)}, and the number {table.cell(column.name, number)}"
    else:
        seconds = moments(texts)
        if not np.isnan(seconds).any():
            return seconds
        readings = {tuple(dates): dates for dates in _readings(texts, FORMATS)}
        if len(readings) == 1:  # Another format than ISO 8601.
            return next(iter(readings.values()))
        row = rows[0 if readings else int(np.argmax(np.isnan(seconds)))]
        got = table.cell(column.name, row) + ", which fits several formats" * bool(readings)
    raise ArgumentError(
        f"{column.table}.{column.name}",
        expected="dates of one format",
        got=got,
        remedy="write all dates in the form 2024-01-31, or leave the column out with --data.omit",
    )


def _readings(texts: Sequence[str], formats: Iterable[str]) -> Iterator[Numbers]:
    """Yield the dates as seconds since 1970 by each format that all texts have."""
    for format_ in formats:
        dates = parse_dates(texts, format_)
        if dates:
            utc = [date.replace(tzinfo=date.tzinfo or UTC) for date in dates]
            yield np.array([(date - EPOCH).total_seconds() for date in utc])


def read_times_of(parsed: ParsedColumns, times: Mapping[str, str]) -> dict[str, Numbers]:
    """Return the times of each table with a time column: seconds since 1970, or numbers.

    Raises:
        ArgumentError: some columns have dates and others numbers, which cannot be compared.
    """
    columns = {name: Column(name, column, "date") for name, column in times.items()}
    numbers = {name: parsed.numbers(column) for name, column in columns.items()}
    is_dated = {
        f"{name}.{column.name}": not _holds_numbers(parsed.tables[name], column.name)
        for name, column in columns.items()
        if not np.isnan(numbers[name]).all()
    }
    if len(set(is_dated.values())) == 2:
        dated = [name for name, is_date in is_dated.items() if is_date]
        plain = [name for name, is_date in is_dated.items() if not is_date]
        raise ArgumentError(
            "data.times",
            expected="dates in all time columns, or numbers of one unit in all",
            got=f"dates in {', '.join(dated)}, and numbers in {', '.join(plain)}",
            remedy="write the numbers as dates such as 2024-01-31 14:30: pandas.to_datetime(cells, "
            'unit="s") converts seconds since 1970, and unit="ms" milliseconds',
        )
    return numbers


def _holds_numbers(table: Table, column: str) -> bool:
    """Return whether a column has numbers that are not dates such as 20240131 or 2024."""
    if column not in table.numeric:
        return False
    texts = [without_fraction(cell) for cell in table.columns[column] if not is_missing(cell)]
    return not any(parse_dates(texts, format_) for format_ in DIGITS)


def fitted(columns: Sequence[Column], parsed: ParsedColumns, rows: Any) -> Iterator[Column]:
    """Yield the columns with scale and values of the rows (a dict from table to row indices) that
    training examples can see.
    """
    for column in columns:
        visible = rows[column.table]
        if column.type == "category":
            cells = parsed.tables[column.table].columns[column.name]
            count = Counter(cells[row].strip() for row in visible if not is_missing(cells[row]))
            yield Column(column.table, column.name, "category", values=tuple(sorted(count)))
            continue
        numbers = parsed.numbers(column)[visible]
        numbers = numbers[~np.isnan(numbers)]
        mean = float(numbers.mean()) if len(numbers) else 0.0
        std = float(numbers.std()) if len(numbers) else 0.0
        # With a scale of 1, a column that is constant in training would have no limit.
        std = std if std > 1e-12 * abs(mean) else max(abs(mean), 1.0)
        yield Column(column.table, column.name, column.type, mean, std)


def cells_of(parsed: ParsedColumns, column: Column) -> Cells:
    """Return the cells of a column of a table, which may be another one than in training."""
    table = parsed.tables[column.table]
    if column.type == "row":
        return Cells(np.full(len(table), np.nan), np.ones(len(table), dtype=np.int64))
    texts = table.texts(f"{column.table}.{column.name}", column.name)
    if column.type == "category":
        code_of = {value: code for code, value in enumerate(column.values, 2)}
        codes = [0 if is_missing(text) else code_of.get(text.strip(), 1) for text in texts]
        return Cells(np.full(len(table), np.nan), np.array(codes, dtype=np.int64))
    numbers = parsed.numbers(column)
    return Cells(numbers, (~np.isnan(numbers)).astype(np.int64))


def check_tables(tables: Mapping[str, Table], columns: Sequence[Column], argument: str) -> None:
    """Raise ArgumentError if a table or column of the training database is missing."""
    for column in columns:
        if column.table not in tables:
            raise ArgumentError(
                argument,
                expected=f"the tables of the training database, such as {column.table}",
                got=f"only {', '.join(tables)}",
                remedy="add this table",
            )
        if column.type != "row":
            tables[column.table].check_column(argument, column.name)
