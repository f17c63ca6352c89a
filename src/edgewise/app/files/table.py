"""Table in memory: cells as text, with the line number of each row for messages."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError, counted, unknown_name
from edgewise.app.files.files import unreadable
from edgewise.app.files.frames import FrameSource, pandas_for
from edgewise.app.files.reading import LARGEST, number

if TYPE_CHECKING:
    from pandas import DataFrame, Series

MISSING = {"", "na", "n/a", "nan", "null"}
NUMBER_LIKE = re.compile(r"[<>≤≥≈~(]?=?\s*[-+\u2212]?[.,]?\d[\d.,'\s]*(?:[eE][-+]?\d+)?\)?\s*%?")
DECIMAL_COMMA = r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*"


@dataclass(frozen=True)
class Table:
    """Rows of a file or data frame, as text. ``lines`` has the line number of each row, ``header``
    the cells of the first row with their white space, and ``named`` says whether the format stores
    column names, so that the first row is always data.
    """

    path: Path | FrameSource
    frame: DataFrame
    lines: list[int]
    delimiter: str = ","
    named: bool = False
    header: Sequence[str] = ()

    @classmethod
    def of(cls, name: str, columns: dict[str, list[str]]) -> Table:
        """Create a table from the cells of each column; errors call it ``name``."""
        frame = pandas_for("reading a table").DataFrame(columns, dtype=str)
        return cls(Path(name), frame, list(range(len(frame))))

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        """Cells of each column, by its name."""
        return {name: self.frame[name].tolist() for name in self.frame.columns}

    def line(self, row: int) -> int:
        """Return the number of a row as shown in an editor, a spreadsheet or pandas."""
        return self.lines[row]

    def only(self, rows: Sequence[int]) -> Table:
        """Return a table of the given rows, which keep their line numbers."""
        lines = [self.lines[row] for row in rows]
        return replace(self, frame=self.frame.iloc[list(rows)], lines=lines)

    def without_header(self, names: Sequence[str]) -> Table:
        """Insert the column names, which are data, as row 1, and rename the columns."""
        if self.frame.shape[1] != len(names):
            raise unreadable(
                self.path,
                expected=f"{counted(len(names), 'column')}, as in the table of data.path",
                got=counted(self.frame.shape[1], "column"),
                remedy="give this table the same columns as the table of data.path",
            )
        if self.named:
            return replace(self, frame=self.frame.set_axis(list(names), axis=1))
        pandas = pandas_for("reading a table")
        cells = self.header or list(self.frame.columns)
        first = pandas.DataFrame([cells], columns=list(names), dtype=str)
        frame = pandas.concat([first, self.frame.set_axis(list(names), axis=1)], ignore_index=True)
        return replace(self, frame=frame, lines=[1, *self.lines])

    def texts(self, argument: str, column: str) -> list[str]:
        """Return the cells of a column; ArgumentError suggests the most similar name."""
        self.check_column(argument, column)
        return self.columns[column]

    def check_column(self, argument: str, column: str) -> None:
        """Raise ArgumentError if there is no such column; it suggests the most similar name."""
        if column not in self.frame.columns:
            unknown = unknown_name(argument, column, self.frame.columns)
            raise ArgumentError(
                argument,
                expected=f"a column of {self.path.name}, {unknown.expected}",
                got=unknown.got,
                remedy=unknown.remedy,
            )

    def numbers(
        self,
        argument: str,
        columns: Sequence[str],
        remedy: str = "correct or drop this row, or name another column",
        *,
        allow_missing: bool = False,
    ) -> Tensor:
        """Return columns as float64 ``[rows, columns]``, NaN for missing values if these are
        allowed.
        """
        numbers = torch.empty(len(columns), len(self), dtype=torch.double)
        for i, column in enumerate(columns):
            values = self.parsed(argument, column)
            wrong = values.isna().to_numpy()
            if allow_missing:
                wrong = wrong & ~_are_missing(self.frame[column]).to_numpy()
            for row in wrong.nonzero()[0][:1].tolist():
                raise ArgumentError(
                    argument,
                    expected=f"finite numbers in column {column!r}, at most 3.4e38",
                    got=self.cell(column, row),
                    remedy=remedy,
                )
            numbers[i] = torch.from_numpy(values.to_numpy(copy=True))
        return numbers.T.contiguous()

    def parsed(self, argument: str, column: str) -> Series[Any]:
        """Return the numbers in a column as float64, NaN for other cells. Raises ArgumentError if
        it has decimal commas and decimal points.
        """
        self.check_column(argument, column)
        cells = self.frame[column]
        if self.delimiter == ";":
            commas, points = cells.str.contains(","), cells.str.contains(".", regex=False)
            both = [is_used.to_numpy().nonzero()[0] for is_used in (commas, points & ~commas)]
            numbers = as_numbers(cells, self.delimiter)
            if all(len(rows) for rows in both) and numbers[commas].notna().any():
                first, second = (self.cell(column, int(rows[0])) for rows in both)
                raise ArgumentError(
                    argument,
                    expected=f"either decimal commas or decimal points in column {column!r}",
                    got=f"{first}, and {second}",
                    remedy="write all numbers in one way, without separators of thousands",
                )
            return numbers
        return as_numbers(cells, self.delimiter)

    def cell(self, column: str, row: int) -> str:
        """Return a description of a cell for an error."""
        text = self.frame[column].iloc[row]
        return f"{text[:60]!r} in row {self.line(row)} of {self.path.name}"

    @cached_property
    def numeric(self) -> list[str]:
        """Names of the numeric columns, which may have missing values."""
        return [name for name in self.frame.columns if self._is_numeric(self.frame[name])]

    def counts_rows(self, column: str) -> bool:
        """Return whether a column only numbers the rows: 0, 1, 2, ... or 1, 2, 3, ..."""
        first = self.columns[column][0]
        return first in ("0", "1") and self.columns[column] == [
            str(number) for number in range(int(first), int(first) + len(self))
        ]

    def choose(
        self,
        argument: str,
        column: str,
        candidates: Sequence[str],
        what: str,
        taken: Collection[str] = (),
        *,
        of_words: bool = False,
    ) -> str:
        """Return the named column, or the only candidate if none is named. ``what`` describes it in
        the error, and ``of_words`` keeps the error from suggesting a column of numbers.
        """
        free = [name for name in self.frame.columns if name not in taken]
        if column:
            self.texts(argument, column)
            if column not in taken:
                return column
        elif len(candidates) == 1:
            return candidates[0]
        listed = candidates or free or list(self.frame.columns)
        shown = ", ".join(repr(name) for name in listed[:12])
        others = f" and {len(listed) - 12} more" if len(listed) > 12 else ""
        expected = f"{what} in {self.path.name}"
        if column:
            expected += ", which no other field uses"
            got = f"{column!r}, which another field uses"
        elif candidates:
            got = f"{counted(len(candidates), 'possible column')}: {shown}{others}"
        else:
            got = f"{'no such column among' if free else 'only the columns'} {shown}{others}"
        # Without a candidate, suggest the last column, as targets are usually there.
        if of_words and not candidates:
            free = [name for name in free if name not in self.numeric]
        likely = list(candidates[:1] or free[-1:]) if free else []
        shown = "".join(name if name.isidentifier() else f"'{name}'" for name in likely)
        raise ArgumentError(
            argument,
            expected=expected,
            got=got,
            remedy=f"name a column: --{argument} {shown}" if shown else "add a column of this kind",
        )

    def _is_numeric(self, cells: Series[Any]) -> bool:
        present = cells[~_are_missing(cells)]
        return bool(len(present)) and not as_numbers(present, self.delimiter).isna().any()


def is_missing(text: str) -> bool:
    """Return whether a cell of a numeric column is missing: blank, ``NA``, ``NaN`` or ``null``."""
    return text.strip().lower() in MISSING


def _are_missing(cells: Series[Any]) -> Series[Any]:
    missing: Series[Any] = cells.str.strip().str.lower().isin(MISSING)
    return missing


def as_numbers(cells: Series[Any], delimiter: str = ",") -> Series[Any]:
    """Convert cells to float64, NaN for cells without a finite number in float32's range. With
    semicolons as delimiter, ``1,5`` has a decimal comma.
    """
    if delimiter == ";":
        decimal = cells.str.fullmatch(DECIMAL_COMMA)
        cells = cells.where(~decimal, cells.str.replace(",", "."))
    values = pandas_for("reading a table").to_numeric(cells, errors="coerce").astype("float64")
    numbers: Series[Any] = values.where(values.abs() <= LARGEST)
    return numbers


def misread_number(labels: Iterable[str], delimiter: str = ",") -> str:
    """Return a label such as ``5%`` or ``<5`` if all labels look like numbers; else ""."""
    texts = [label.strip() for label in labels]
    if not all(map(NUMBER_LIKE.fullmatch, texts)):
        return ""
    return next((text for text in texts if math.isnan(as_number(text, delimiter))), "")


def as_number(text: str, delimiter: str = ",") -> float:
    """Convert one cell as :func:`as_numbers` does."""
    if delimiter == ";" and re.fullmatch(DECIMAL_COMMA, text):
        text = text.replace(",", ".")
    return number(text)


def check_varies(numbers: Tensor, argument: str, column: str, path: Path | FrameSource) -> None:
    """Raise ArgumentError if all training targets are equal."""
    if (numbers == numbers[0]).all():
        raise ArgumentError(
            argument,
            expected=f"at least two different numbers in column {column!r} of {path.name}",
            got=f"{float(numbers[0]):g} in all {len(numbers)} training rows",
            remedy=f"name another column with --{argument}, or add rows",
        )
