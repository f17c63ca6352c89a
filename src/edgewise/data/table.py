"""Tables of comma-separated values, plain or gzipped, with errors that name the row."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from edgewise.errors import ArgumentError, MissingDataError, unknown_name


@dataclass(frozen=True)
class Table:
    """The rows of a file as texts by column.

    Attributes:
        path: the file.
        rows: one an entry; its line in the file is :meth:`line`.

    """

    path: Path
    rows: list[dict[str, str]]

    def line(self, row: int) -> int:
        """The number of a row, counting the header as 1, as a spreadsheet shows it."""
        return row + 2

    def texts(self, argument: str, column: str) -> list[str]:
        """A column as it is.

        Raises:
            ArgumentError: there is no such column; suggests the nearest.

        """
        if column not in self.rows[0]:
            raise unknown_name(argument, column, self.rows[0])
        return [row[column] for row in self.rows]

    def numbers(self, argument: str, columns: Sequence[str]) -> Tensor:
        """Columns as floats ``[rows, columns]``.

        Raises:
            ArgumentError: a column is not there, or a value is not a finite number; names its row.

        """
        values = [
            [self._number(text, argument, column, row) for row, text in enumerate(texts)]
            for column, texts in ((c, self.texts(argument, c)) for c in columns)
        ]
        return torch.tensor(values).reshape(len(columns), len(self.rows)).T.contiguous()

    def _number(self, text: str, argument: str, column: str, row: int) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ArgumentError(
                argument,
                expected=f"finite numbers in column {column!r}",
                got=f"{text!r} in row {self.line(row)} of {self.path.name}",
                remedy="correct or drop this row, or name another column",
            )
        return number


def read_table(path: Path) -> Table:
    """Read a file whose first row names the columns.

    Raises:
        MissingDataError: there is no such file.
        ArgumentError: it is empty, has no rows, a row of another length, or is no text.

    """
    if not path.is_file():
        raise MissingDataError(
            f"{path}: no such file. Remedy: name a .csv or .csv.gz file with data.path."
        )
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as f:
            reader = csv.DictReader(f, restkey="", restval=None, strict=True)
            rows = list(reader)
    except (csv.Error, UnicodeDecodeError, OSError, EOFError) as error:
        raise _unusable(path, f"a file that cannot be read ({error})") from error
    if not rows:
        raise _unusable(path, "no rows")
    for number, row in enumerate(rows, 2):
        if "" in row or None in row.values():
            raise _unusable(path, f"more or fewer values in row {number}")
    return Table(path, rows)


def _unusable(path: Path, got: str) -> ArgumentError:
    return ArgumentError(
        "data.path",
        expected=f"values separated by commas under a row of names, in {path}",
        got=got,
        remedy="save the table again as CSV in UTF-8",
    )
