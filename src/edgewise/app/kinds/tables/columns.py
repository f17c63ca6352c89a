"""Columns of a database as inputs of a model: numbers, dates and categories of each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.dates import moments, read_times
from edgewise.app.files.reading import log
from edgewise.app.files.table import Table, is_missing
from edgewise.app.kinds.tables.keys import Keys, holds_dates

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


def find_columns(
    tables: Mapping[str, Table], keys: Keys, target: tuple[str, str], omit: Sequence[str]
) -> list[Column]:
    """Return the columns to read, with types; key columns, the target and ``omit`` have no cells.
    Columns of many texts, and columns with one value, are left out with a note.
    """
    leave_out = {*keys.columns, target, *(tuple(name.split(".", 1)) for name in omit)}
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


def numbers_of(table: Table, column: Column) -> Numbers:
    """Return the numbers of a column, or its dates as seconds since 1970; NaN for missing cells and
    categories.
    """
    numbers = np.full(len(table), np.nan)
    if column.type == "number":
        cells = table.numbers(f"{column.table}.{column.name}", [column.name], allow_missing=True)
        return cells[:, 0].numpy()
    if column.type == "date":
        present = [
            row for row, cell in enumerate(table.columns[column.name]) if not is_missing(cell)
        ]
        if present:
            argument = f"{column.table}.{column.name}"
            seconds = moments([table.columns[column.name][row] for row in present])
            if np.isnan(seconds).any():  # The dates have another format than ISO 8601.
                seconds = np.array(read_times(table.only(present), argument, column.name))
            numbers[present] = seconds
    return numbers


def fitted(columns: Sequence[Column], tables: Mapping[str, Table], rows: Any) -> Iterator[Column]:
    """Yield the columns with scale and values of the rows (a dict from table to row indices) that
    training examples can see.
    """
    for column in columns:
        table, seen = tables[column.table], rows[column.table]
        if column.type == "category":
            cells = table.columns[column.name]
            count = Counter(cells[row].strip() for row in seen if not is_missing(cells[row]))
            yield Column(column.table, column.name, "category", values=tuple(sorted(count)))
            continue
        numbers = numbers_of(table, column)[seen]
        numbers = numbers[~np.isnan(numbers)]
        mean = float(numbers.mean()) if len(numbers) else 0.0
        std = float(numbers.std()) if len(numbers) else 0.0
        # With a scale of 1, a column that is constant in training would have no limit.
        std = std if std > 1e-12 * abs(mean) else max(abs(mean), 1.0)
        yield Column(column.table, column.name, column.type, mean, std)


def cells_of(table: Table, column: Column) -> Cells:
    """Return the cells of a column of a table, which may be another one than in training."""
    if column.type == "row":
        return Cells(np.full(len(table), np.nan), np.ones(len(table), dtype=np.int64))
    texts = table.texts(f"{column.table}.{column.name}", column.name)
    if column.type == "category":
        code_of = {value: code for code, value in enumerate(column.values, 2)}
        codes = [0 if is_missing(text) else code_of.get(text.strip(), 1) for text in texts]
        return Cells(np.full(len(table), np.nan), np.array(codes, dtype=np.int64))
    numbers = numbers_of(table, column)
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
