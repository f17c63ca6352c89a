"""Tables of comma-separated values, plain or gzipped, with errors that name the row."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from edgewise.data.reading import number, read_text
from edgewise.errors import ArgumentError, unknown_name


@dataclass(frozen=True)
class Table:
    """The rows of a file as texts by column.

    Attributes:
        path: the file.
        rows: one an entry.
        lines: their numbers in the file, where the header's is 1.

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
            unknown = unknown_name(argument, column, self.rows[0])
            raise ArgumentError(
                argument,
                expected=f"a column of {self.path.name}, {unknown.expected}",
                got=unknown.got,
                remedy=unknown.remedy,
            )
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
            ArgumentError: a column is not there, or a value is not a finite number that float32
                can hold; names its row.

        """
        values = [
            [self._number(text, argument, column, row, remedy) for row, text in enumerate(texts)]
            for column, texts in ((c, self.texts(argument, c)) for c in columns)
        ]
        return torch.tensor(values).reshape(len(columns), len(self.rows)).T.contiguous()

    def _number(self, text: str, argument: str, column: str, row: int, remedy: str) -> float:
        value = number(text)
        if math.isnan(value):
            raise ArgumentError(
                argument,
                expected=f"finite numbers in column {column!r}, at most 3.4e38",
                got=f"{text[:60]!r} in row {self.line(row)} of {self.path.name}",
                remedy=remedy,
            )
        return value


def read_table(path: Path) -> Table:
    """Read a file whose first row names the columns.

    Raises:
        MissingDataError: there is no such file.
        ArgumentError: it is empty, has no rows, an empty row before its end, a row of another
            length or two columns of one name, or is no text.

    """
    try:
        reader = csv.reader(io.StringIO(read_text(path)), strict=True)
        numbered = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise _unusable(path, f"a file that cannot be read ({error})") from error
    while not numbered[-1][1]:  # empty lines after the last row
        numbered.pop()
    (_, names), *numbered = numbered
    if not numbered:
        raise _unusable(path, "no rows")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _unusable(path, f"two columns of the name {twice[0]!r}")
    for line_number, row in numbered:
        if not row:  # to skip it would move what follows to another point in time
            raise _unusable(path, f"an empty line, row {line_number}")
        if len(row) != len(names):
            raise _unusable(
                path, f"{len(row)} values under {len(names)} names in row {line_number}"
            )
    rows = [dict(zip(names, row, strict=True)) for _, row in numbered]
    return Table(path, rows, [line_number for line_number, _ in numbered])


def _unusable(path: Path, got: str) -> ArgumentError:
    return ArgumentError(
        "data.path",
        expected=f"values separated by commas under a row of names, in {path}",
        got=got,
        remedy="correct it, or save the table again as CSV in UTF-8",
    )
