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
        rows: one an entry.
        lines: their numbers in the file, where the header's is 1 and blank lines count.

    """

    path: Path
    rows: list[dict[str, str]]
    lines: list[int]

    def line(self, row: int) -> int:
        """The number of a row, as an editor or a spreadsheet shows it."""
        return self.lines[row]

    def texts(self, argument: str, column: str) -> list[str]:
        """A column as it is.

        Raises:
            ArgumentError: there is no such column; suggests the nearest.

        """
        if column not in self.rows[0]:
            raise unknown_name(argument, column, self.rows[0])
        return [row[column] for row in self.rows]

    def numbers(
        self,
        argument: str,
        columns: Sequence[str],
        remedy: str = "correct or drop this row, or name another column",
    ) -> Tensor:
        """Columns as floats ``[rows, columns]``.

        Args:
            argument: the field that names them.
            columns: their names.
            remedy: what to do about a value that is no number.

        Raises:
            ArgumentError: a column is not there, or a value is not a finite number; names its row.

        """
        values = [
            [self._number(text, argument, column, row, remedy) for row, text in enumerate(texts)]
            for column, texts in ((c, self.texts(argument, c)) for c in columns)
        ]
        return torch.tensor(values).reshape(len(columns), len(self.rows)).T.contiguous()

    def _number(self, text: str, argument: str, column: str, row: int, remedy: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ArgumentError(
                argument,
                expected=f"finite numbers in column {column!r}",
                got=f"{text!r} in row {self.line(row)} of {self.path.name}",
                remedy=remedy,
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
            # None stands for what is too much or too little: "" is the name that pandas gives a
            # column of row numbers.
            reader = csv.DictReader(f, restkey=None, restval=None, strict=True)
            numbered = [(reader.line_num, row) for row in reader]
    except (csv.Error, UnicodeDecodeError, OSError, EOFError) as error:
        raise _unusable(path, f"a file that cannot be read ({error})") from error
    if not numbered:
        raise _unusable(path, "no rows")
    for number, row in numbered:
        if None in row or None in row.values():
            raise _unusable(path, f"more or fewer values in row {number}")
    return Table(path, [row for _, row in numbered], [number for number, _ in numbered])


def _unusable(path: Path, got: str) -> ArgumentError:
    return ArgumentError(
        "data.path",
        expected=f"values separated by commas under a row of names, in {path}",
        got=got,
        remedy="save the table again as CSV in UTF-8",
    )
