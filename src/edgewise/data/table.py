"""Tables as people have them: any common delimiter, encoding and packing; errors name the row.

The delimiter is a comma, a tab, a semicolon or a bar, whichever makes most columns of the first
row. Fields may be in quotes. Where a semicolon separates, ``1,5`` is a number, as in Excel's files
of half of Europe. Encodings and packing: see :mod:`edgewise.data.reading`.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from edgewise.data.files import unreadable
from edgewise.data.reading import TextForm, check_memory, number, opened_text, text_form
from edgewise.errors import ArgumentError, unknown_name

DELIMITERS = (",", "\t", ";", "|")
WORDS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
OTHER_FORMS = {
    *(".xlsx", ".xls", ".ods", ".numbers", ".parquet", ".feather"),
    *(".json", ".jsonl", ".ndjson"),
}
MISSING = {"", "na", "n/a", "nan", "null"}
QUOTED = re.compile(r'"(?:[^"]|"")*"', re.DOTALL)
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+([eE][+-]?\d+)?\s*")
PER_CELL = 60  # bytes of a short text beside its letters, and of its place in a list
SAMPLE = 20  # lines by which the delimiter is chosen


@dataclass(frozen=True)
class Table:
    """The rows of a file as texts by column.

    Attributes:
        path: the file.
        columns: the texts of each, by its name.
        lines: the numbers of the rows in the file, where the header's is 1.
        delimiter: what separates the columns.

    """

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]
    delimiter: str = ","

    def __len__(self) -> int:
        return len(self.lines)

    def line(self, row: int) -> int:
        """The number of a row, as an editor or a spreadsheet shows it."""
        return self.lines[row]

    def only(self, rows: Sequence[int]) -> Table:
        """The table of these rows, with their numbers of lines."""
        columns = {name: [texts[row] for row in rows] for name, texts in self.columns.items()}
        return replace(self, columns=columns, lines=[self.lines[row] for row in rows])

    def without_header(self, names: Sequence[str]) -> Table:
        """The same of a file whose first row is one like the others.

        Raises:
            ArgumentError: it has another number of columns than names.

        """
        if len(self.columns) != len(names):
            raise unreadable(
                self.path,
                expected=f"{len(names)} columns, as in data.path",
                got=str(len(self.columns)),
            )
        columns = {
            name: [first, *others]
            for name, (first, others) in zip(names, self.columns.items(), strict=True)
        }
        return replace(self, columns=columns, lines=[1, *self.lines])

    def texts(self, argument: str, column: str) -> list[str]:
        """A column as it is.

        Raises:
            ArgumentError: there is no such column; suggests the nearest.

        """
        if column not in self.columns:
            unknown = unknown_name(argument, column, self.columns)
            raise ArgumentError(
                argument,
                expected=f"a column of {self.path.name}, {unknown.expected}",
                got=unknown.got,
                remedy=unknown.remedy,
            )
        return self.columns[column]

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
        return torch.tensor(values).reshape(len(columns), len(self)).T.contiguous()

    def numeric(self) -> list[str]:
        """The columns of numbers, of which some may be missing."""
        return [name for name, texts in self.columns.items() if self._is_numeric(texts)]

    def counts_rows(self, column: str) -> bool:
        """Whether a column only counts them: 0, 1, 2, ... or 1, 2, 3, ..."""
        first = self.columns[column][0]
        return first in ("0", "1") and self.columns[column] == [
            str(number) for number in range(int(first), int(first) + len(self))
        ]

    def choose(
        self,
        argument: str,
        named: str,
        candidates: Sequence[str],
        what: str,
        taken: Collection[str] = (),
    ) -> str:
        """The column that is named, or the only one that it can be where none is.

        Args:
            argument: the field that names it, such as ``data.target``.
            named: its value; "" guesses.
            candidates: columns that it can be.
            what: it is, with its article: "the column of numbers to predict".
            taken: columns that are something else, and that no error proposes.

        Raises:
            ArgumentError: the named one is not there or taken, or there is not exactly one
                candidate; lists them.

        """
        free = [name for name in self.columns if name not in taken]
        if named:
            self.texts(argument, named)
            if named not in taken:
                return named
        elif len(candidates) == 1:
            return candidates[0]
        listed = candidates or free or list(self.columns)
        shown = ", ".join(repr(name) for name in listed[:12])
        more = f" and {len(listed) - 12} more" if len(listed) > 12 else ""
        expected = f"{what} in {self.path.name}"
        if named:
            expected += ", another than those of other fields"
            got = f"{named!r}, which is one of them"
        elif candidates:
            got = f"{len(candidates)} that it can be: {shown}{more}"
        else:
            got = f"{'none that looks like it among' if free else 'no column but'} {shown}{more}"
        # Where nothing looks like it, the last column is most likely meant.
        likely = _quoted(listed[0 if candidates else -1])
        raise ArgumentError(
            argument,
            expected=expected,
            got=got,
            remedy=f"name it, such as --{argument} {likely}" if free else "add such a column",
        )

    def _is_numeric(self, texts: Sequence[str]) -> bool:
        given = [text for text in texts if not is_missing(text)]
        return bool(given) and not any(math.isnan(as_number(t, self.delimiter)) for t in given)

    def _number(self, text: str, argument: str, column: str, row: int, remedy: str) -> float:
        value = as_number(text, self.delimiter)
        if math.isnan(value):
            raise ArgumentError(
                argument,
                expected=f"finite numbers in column {column!r}, at most 3.4e38",
                got=f"{text[:60]!r} in row {self.line(row)} of {self.path.name}",
                remedy=remedy,
            )
        return value


def read_table(path: Path, *, argument: str = "data.path") -> Table:
    """Read a file whose first row names the columns.

    Args:
        path: the file; packed ones end in ``.gz``, ``.bz2``, ``.xz`` or ``.zip``.
        argument: the field that names it, for errors.

    Raises:
        MissingDataError: there is no such file.
        ArgumentError: it is empty, has no rows, an empty row before its end, a row of another
            length or two columns of one name, is no text, or does not fit into memory.

    """
    form = _form(path, argument)
    delimiter = _delimiter(path, form)
    found = _records(path, form, delimiter, argument)
    _, names = next(found)
    needed = form.characters + PER_CELL * form.lines * len(names)
    check_memory(argument, needed, path.name, "give a part of its rows, or more memory")
    columns: dict[str, list[str]] = {name: [] for name in names}
    lines: list[int] = []
    empty = 0  # the first of the empty lines that we are in
    for line, row in found:
        if not row:
            empty = empty or line
            continue
        if empty:  # to skip it would move what follows to another point in time
            raise _unusable(path, argument, f"an empty line, row {empty}", delimiter)
        lines.append(line)
        for texts, text in zip(columns.values(), row, strict=True):
            texts.append(text)
    if not lines:
        raise _unusable(path, argument, "no rows", delimiter)
    return Table(path, columns, lines, delimiter)


def table_rows(path: Path, *, argument: str = "data.path") -> Iterator[tuple[int, list[str]]]:
    """The rows of such a file and the numbers of their lines; no more than one is in memory.

    The first is the names of the columns; empty lines are left out.

    Raises:
        MissingDataError, ArgumentError: see :func:`read_table`.

    """
    form = _form(path, argument)
    found = _records(path, form, _delimiter(path, form), argument)
    return ((line, row) for line, row in found if row)


def is_missing(text: str) -> bool:
    """Whether a field says that there is no number: it is blank, or ``NA``, ``NaN``, ``null``."""
    return text.strip().lower() in MISSING


def as_number(text: str, delimiter: str = ",") -> float:
    """The number that a field is; NaN where it is none.

    Args:
        text: the field.
        delimiter: of its file; beside a semicolon, a comma is that of decimals.

    """
    if delimiter == ";" and DECIMAL_COMMA.fullmatch(text):
        text = text.replace(",", ".")
    return number(text)


def check_varies(numbers: Tensor, argument: str, column: str, path: Path) -> None:
    """Refuse a column to learn from that is the same number everywhere.

    Raises:
        ArgumentError: it is.

    """
    if (numbers == numbers[0]).all():
        raise ArgumentError(
            argument,
            expected=f"numbers that differ in column {column!r} of {path.name}",
            got=f"{float(numbers[0]):g} in each of the {len(numbers)} rows to train on",
            remedy=f"name another column with --{argument}, or give more rows",
        )


def _form(path: Path, argument: str) -> TextForm:
    if path.suffix.lower() in OTHER_FORMS:
        raise ArgumentError(
            argument,
            expected="a table as text",
            got=path.name,
            remedy="save it as CSV, from the program that made it",
        )
    return text_form(path)


def _delimiter(path: Path, form: TextForm) -> str:
    """The one with which most of the first rows are as long as the first, and that the longest."""
    with opened_text(path, form.encoding) as text:
        sample = list(islice(text, SAMPLE))

    def fits(delimiter: str) -> tuple[float, bool, int]:
        # Not strictly: the sample may end within quotes, and these are wrong for other delimiters.
        rows = [row for _, row in _rows(sample, delimiter, strict=False) if row]
        width = len(rows[0]) if rows else 1
        same = sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0
        return (
            same,
            same > 0 and delimiter == "\t",
            width,
        )  # texts have commas, and hardly ever tabs

    return max(DELIMITERS, key=fits)


def _records(
    path: Path, form: TextForm, delimiter: str, argument: str
) -> Iterator[tuple[int, list[str]]]:
    """The names, then each row; one without a value is empty."""
    with opened_text(path, form.encoding) as text:
        try:
            rows = _rows(text, delimiter)
            line, names = next(rows)
            names = [name.strip() for name in names]
            while len(names) > 1 and not names[-1]:  # what spreadsheets append
                names.pop()
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                got = f"two columns of the name {twice[0]!r}"
                raise _unusable(path, argument, got, delimiter)
            yield line, names
            for line, row in rows:
                while len(row) > len(names) and not row[-1]:
                    row.pop()
                if row and len(row) != len(names):
                    got = f"{len(row)} values under {len(names)} names in row {line}"
                    raise _unusable(path, argument, got, delimiter)
                yield line, row if any(row) or len(row) == 1 else []
        except csv.Error as error:
            got = f"a file that cannot be read ({error})"
            raise _unusable(path, argument, got, delimiter) from error


def _rows(
    lines: Iterable[str], delimiter: str, *, strict: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """The fields of each row, and the number of the line where it ends."""
    if delimiter == "\t":  # here a quotation mark is one, but around a whole field
        for number_of, line in enumerate(lines, 1):
            kept = line.rstrip("\r\n")
            yield number_of, [_unquoted(field) for field in kept.split("\t")] if kept else []
        return
    reader = csv.reader(lines, delimiter=delimiter, strict=strict, skipinitialspace=True)
    for row in reader:
        yield reader.line_num, row


def _unquoted(field: str) -> str:
    return field[1:-1].replace('""', '"') if QUOTED.fullmatch(field) else field


def _quoted(name: str) -> str:
    return f"'{name}'" if not name.isidentifier() else name


def _unusable(path: Path, argument: str, got: str, delimiter: str) -> ArgumentError:
    return ArgumentError(
        argument,
        expected=f"values separated by {WORDS[delimiter]} under a row of names, in {path}",
        got=got,
        remedy="correct it, or save the table again as CSV in UTF-8",
    )
