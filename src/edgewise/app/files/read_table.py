"""Reading of the user's tables: CSV, Parquet, Feather, Excel, JSON lines and data frames.

Cells remain text until a data set needs numbers or dates, so that an error can name the cell. The
delimiter of a text file is detected: the one of :data:`DELIMITERS` for which most of the first rows
have as many cells as the header. :mod:`edgewise.app.files.reading` handles encodings and
compression.
"""

from __future__ import annotations

import csv
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from edgewise._utils.errors import ArgumentError, counted, reading, require
from edgewise._utils.limits import check_memory
from edgewise.app.files.binary import read_excel, read_feather, read_parquet
from edgewise.app.files.files import unreadable
from edgewise.app.files.frames import FrameSource, as_text, cell_text, open_source, pandas_for
from edgewise.app.files.reading import (
    OPENED,
    TextForm,
    opened_text,
    read_bytes,
    read_json,
    text_form,
)
from edgewise.app.files.table import Table

if TYPE_CHECKING:
    from pandas import DataFrame

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
"""Delimiters of text files, with their names in errors."""
TEXTS = (".csv", ".tsv")
OBJECTS = (".jsonl", ".ndjson")
BINARY = {".parquet": "Parquet", ".feather": "Feather", ".xlsx": "Excel", ".xlsm": "Excel"}
OTHER_FORMS = (".xls", ".ods", ".numbers", ".json")
PER_CELL = 60  # Memory of a Python string in bytes, without the characters.
SAMPLE = 20  # Number of lines from which the delimiter is detected.
APPENDED = 4  # Maximum number of empty cells that a spreadsheet appends to a row.
CHUNK = 4096  # Number of rows in memory when a file is read row by row.
SEPARATOR_LINE = re.compile(r"sep=([,;|]?)\s*", re.IGNORECASE)
"""First line by which Excel names the delimiter; none is a tab."""
LINE_END = re.compile("\r\n|\r|\n")
SPACED_QUOTE = re.compile('(?:^|\0) +"')
QUOTED = re.compile(r'^"((?:[^"]|"")*)"$')


class Layout(NamedTuple):
    """Delimiter of a text file, number of lines before the header (1 if Excel has written
    ``sep=;``), and whether a space that is not part of the cell follows each delimiter.
    """

    delimiter: str
    skipped: int
    spaced: bool


def form_of(path: Path) -> str:
    """Return the suffix of a file in lower case, without the suffix of the compression."""
    return Path(path.stem if path.suffix.lower() in OPENED else path.name).suffix.lower()


def is_table(path: Path) -> bool:
    """Return whether the suffix of a file is that of a table with named columns."""
    return form_of(path) in {*TEXTS, *OBJECTS, *BINARY}


def is_text(source: Path | FrameSource) -> bool:
    """Return whether a source is a text file (including CSV), judged by its suffix."""
    return isinstance(source, Path) and form_of(source) not in {*OBJECTS, *BINARY}


def read_table(
    source: str | Path | FrameSource, *, argument: str = "data.path", skip_blank: bool = False
) -> Table:
    """Read a table whose first row names the columns, or a data frame. Raises ArgumentError for
    damaged files, unequal rows, and empty rows before the end (unless ``skip_blank``).
    """
    source = open_source(source, argument)
    if isinstance(source, FrameSource):
        table = Table(source, source.frame, list(range(len(source.frame))), named=True)
    elif form_of(source) in OBJECTS:
        table = _of_objects(source)
    elif form_of(source) in BINARY:
        table = _of_binary(source)
    else:
        return _of_text(source, argument, skip_blank)
    if not len(table):
        raise ArgumentError(
            argument,
            expected=f"at least one row in {source.name}",
            got="no rows",
            remedy="add rows, or name another table",
        )
    return table


def table_rows(path: Path, *, argument: str = "data.path") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each row that is not empty: its line number, and its cells by name. Text is read in
    chunks; cells are text, or values of JSON in a file of JSON lines.
    """
    if form_of(path) in OBJECTS:
        yield from _objects(path)
        return
    if form_of(path) in BINARY:
        table = _of_binary(path)
        chunks: Iterable[tuple[list[int], DataFrame]] = [(table.lines, table.frame)]
    else:
        form = _form(path, argument)
        chunks = _chunks(path, form, layout_of(path, form), argument, CHUNK)
    for lines, frame in chunks:
        names = list(frame.columns)
        blank = frame.isna().any(axis=1)
        for line, skip, *cells in zip(lines, blank, *(frame[n] for n in names), strict=True):
            if not skip:
                yield line, dict(zip(names, cells, strict=True))


def _of_text(path: Path, argument: str, skip_blank: bool) -> Table:
    form = _form(path, argument)
    layout = layout_of(path, form)
    delimiter = layout.delimiter
    pandas = pandas_for("reading a table")
    chunks = list(_chunks(path, form, layout, argument))
    frame = pandas.concat([frame for _, frame in chunks], ignore_index=True)
    lines = [line for numbers, _ in chunks for line in numbers]
    blank = frame.isna().any(axis=1).tolist()
    rows = [row for row, is_blank in enumerate(blank) if not is_blank]
    if not rows:
        raise _unusable(path, argument, "no rows", delimiter)
    # A blank row is an error: skipping it would shift the later rows of a time series.
    if True in blank[: rows[-1]] and not skip_blank:
        got = f"an empty line, row {lines[blank.index(True)]}"
        raise _unusable(path, argument, got, delimiter)
    with opened_text(path, form.encoding) as text:
        header = next(_records(text, layout))[1][: frame.shape[1]]
    if delimiter == "\t":
        header = [QUOTED.sub(_unquoted, name) for name in header]
    frame = frame.iloc[rows].reset_index(drop=True)
    return Table(path, frame, [lines[row] for row in rows], delimiter, header=header)


def _chunks(
    path: Path, form: TextForm, layout: Layout, argument: str, size: int | None = None
) -> Iterator[tuple[list[int], DataFrame]]:
    """Yield line numbers and rows of a CSV or TSV file, ``size`` rows at once or all. The cells of
    a blank row are missing values.
    """
    pandas = pandas_for("reading a table")
    names: list[str] = []
    end, delimiter = layout.skipped, layout.delimiter
    quotes_checked = layout.spaced

    try:
        with opened_text(path, form.encoding) as text:
            width = len(next(_records(text, layout), (0, []))[1])
        if not width:
            raise _WrongWidthError
        if size is None:
            check_memory(
                argument,
                form.characters + PER_CELL * form.lines * width,
                path.name,
                "use a part of the rows, or more memory",
            )
        with (
            opened_text(path, form.encoding) as text,
            pandas.read_csv(
                text,
                sep=delimiter,
                header=None,
                names=range(width + APPENDED),
                dtype=object,
                keep_default_na=False,
                skip_blank_lines=False,
                skiprows=layout.skipped,
                skipinitialspace=layout.spaced,
                quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL,
                # This engine distinguishes a missing cell from an empty cell.
                engine="python",
                chunksize=size or form.lines + 2,
            ) as chunks,
        ):
            for chunk in chunks:
                # A copy has one block for all columns. With 9,000 blocks, this takes minutes.
                rows = chunk.copy()
                texts = ["\0".join(cells) for cells in rows.fillna("").to_numpy().tolist()]
                # In TSV a quotation mark within a cell is an ordinary character.
                if delimiter == "\t" and any('"' in text for text in texts):
                    rows = rows.apply(lambda c: c.str.replace(QUOTED, _unquoted, regex=True))
                elif not quotes_checked and any(map(SPACED_QUOTE.search, texts)):
                    _refuse_quotes(path, form, layout, argument)
                    quotes_checked = True
                lines = [end := end + 1 + len(LINE_END.findall(text)) for text in texts]
                if not names:
                    names = _names(rows, path, argument, delimiter)
                    rows, lines = rows.iloc[1:], lines[1:]
                yield lines, _fitted(rows, names)
    except (_WrongWidthError, pandas.errors.ParserError, csv.Error) as error:
        raise _bad_row(path, form, layout, argument, str(error)) from error


def _refuse_quotes(path: Path, form: TextForm, layout: Layout, argument: str) -> None:
    """Raise ArgumentError if a space precedes the quotation mark that opens a cell."""
    spaced = layout._replace(spaced=True)
    with opened_text(path, form.encoding) as text, opened_text(path, form.encoding) as same_text:
        rows = _records(text, layout, strict=False), _records(same_text, spaced, strict=False)
        for (_, cells), (_, spaced_cells) in zip(*rows, strict=False):
            for cell, spaced_cell in zip(cells[1:], spaced_cells[1:], strict=False):
                # A cell that is itself quoted may begin with a space and a quotation mark.
                if SPACED_QUOTE.match(cell) and cell != spaced_cell:
                    got = f"a space between a delimiter and a quotation mark: {cell[:60]!r}"
                    raise _unusable(path, argument, got, layout.delimiter)


def _unquoted(cell: re.Match[str]) -> str:
    return cell[1].replace('""', '"')


class _WrongWidthError(Exception):
    """Error: a row has more or fewer cells than the header."""


def _names(cells: DataFrame, path: Path, argument: str, delimiter: str) -> list[str]:
    """Return the names in the first row, without empty ones at its end (from spreadsheets)."""
    names = [str(name).strip() for name in cells.iloc[0].fillna("")]
    while len(names) > 1 and not names[-1]:
        names.pop()
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise _unusable(path, argument, f"two columns with the name {name!r}", delimiter)
    return names


def _fitted(cells: DataFrame, names: Sequence[str]) -> DataFrame:
    """Name the columns, and set the cells of blank rows to missing values."""
    width = len(names)
    if (cells.iloc[:, width:].fillna("") != "").to_numpy().any():
        raise _WrongWidthError
    cells = cells.iloc[:, :width].set_axis(list(names), axis=1)
    first, others = cells.iloc[:, 0].fillna(""), cells.iloc[:, 1:].fillna("")
    blank = (first.str.strip() == "") & (others == "").all(axis=1)
    blank &= (width > 1) | cells.isna().any(axis=1)
    if cells[~blank].isna().to_numpy().any():
        raise _WrongWidthError
    return cells.mask(blank) if blank.any() else cells


def _bad_row(
    path: Path, form: TextForm, layout: Layout, argument: str, cause: str
) -> ArgumentError:
    """Return the error for the first row that pandas could not use, with its line number."""
    delimiter = layout.delimiter
    with opened_text(path, form.encoding) as text:
        records = _records(text, layout)
        try:
            _, names = next(records, (0, []))
            while len(names) > 1 and not names[-1].strip():
                names.pop()
            for line, row in records:
                while len(row) > len(names) and not row[-1]:
                    row.pop()
                if row and len(row) != len(names):
                    got = f"{counted(len(row), 'value')} under {counted(len(names), 'name')}"
                    got += f" in row {line}"
                    return _unusable(path, argument, got, delimiter)
        except csv.Error as error:
            cause = str(error)
    got = f"a file that cannot be read ({cause})" if cause else "no rows"
    return _unusable(path, argument, got, delimiter)


def _records(
    lines: Iterable[str], layout: Layout, *, strict: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Yield the last line number and the cells of each row; ``strict`` raises csv.Error for wrong
    quotes.
    """
    quoting: Any = csv.QUOTE_NONE if layout.delimiter == "\t" else csv.QUOTE_MINIMAL
    reader = csv.reader(
        islice(lines, layout.skipped, None),
        delimiter=layout.delimiter,
        strict=strict,
        skipinitialspace=layout.spaced,
        quoting=quoting,
    )
    for row in reader:
        yield reader.line_num + layout.skipped, row


def layout_of(path: Path, form: TextForm) -> Layout:
    """Detect the layout; with its delimiter, most of the first rows are as wide as the header."""
    with opened_text(path, form.encoding) as text:
        sample = list(islice(text, SAMPLE))
    separator_line = SEPARATOR_LINE.fullmatch(sample[0]) if sample else None
    skipped = int(separator_line is not None)

    def rows_of(delimiter: str, spaced: bool) -> list[list[str]]:
        # Not strict, because the sample may end within quotes.
        records = _records(sample, Layout(delimiter, skipped, spaced), strict=False)
        return [row for _, row in records if row]

    def fits(delimiter: str) -> tuple[float, bool, int]:
        rows = rows_of(delimiter, spaced=True)
        width = len(rows[0]) if rows else 1
        same = sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0
        # Cells of text often contain commas, and hardly ever tabs.
        return same, same > 0 and delimiter == "\t", width

    delimiter = separator_line[1] or "\t" if separator_line else max(DELIMITERS, key=fits)
    rows = rows_of(delimiter, spaced=False)
    cells = [cell for row in rows[1:] or rows for cell in row[1:] if cell.strip()]
    spaced = bool(cells) and all(cell.startswith(" ") for cell in cells)
    return Layout(delimiter, skipped, spaced and delimiter != "\t")


def _form(path: Path, argument: str) -> TextForm:
    if form_of(path) in OTHER_FORMS:
        raise ArgumentError(
            argument,
            expected=f"text, or one of {', '.join((*OBJECTS, *BINARY))}",
            got=path.name,
            remedy="export the table as CSV from the program that wrote it",
        )
    return text_form(path, by_line=True)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each line of a JSON Lines file, and its object as a dict."""
    with opened_text(path, text_form(path, by_line=True).encoding) as text:
        for number, line in enumerate(text, 1):
            if not line.strip():
                continue
            try:
                row = read_json(line)
            except ValueError as error:
                raise _no_object(path, f"{error} in line {number}") from error
            if not isinstance(row, dict):
                raise _no_object(path, f"{line[:40]!r} in line {number}")
            yield number, row


def _no_object(path: Path, got: str) -> ArgumentError:
    expected = "a JSON object in each line"
    return ArgumentError(str(path), expected=expected, got=got, remedy="correct this line")


def _of_objects(path: Path) -> Table:
    form = text_form(path, by_line=True)
    needed = 4 * form.characters  # Memory of Python objects, their text and the frame.
    check_memory(str(path), needed, path.name, "use a part of the rows, or more memory")
    numbered = list(_objects(path))
    names = list(dict.fromkeys(str(name) for _, row in numbered for name in row))
    cells = {name: [_json_text(row.get(name)) for _, row in numbered] for name in names}
    pandas = pandas_for("reading a table")
    return Table(
        path, pandas.DataFrame(cells, dtype=str), [line for line, _ in numbered], named=True
    )


def _json_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else cell_text(value)


def _of_binary(path: Path) -> Table:
    """Read Parquet, Feather or the first sheet of an Excel workbook."""
    kind = BINARY[form_of(path)]
    package = "openpyxl" if kind == "Excel" else "pyarrow"
    require(package, extra="tables", purpose=f"reading {path.name}")
    content = read_bytes(path)
    with reading(path, expected=f"a complete {kind} file"):
        if kind == "Excel":
            frame, lost_cells = read_excel(path, content)
        else:
            frame = (read_parquet if kind == "Parquet" else read_feather)(path, content)
    if kind == "Excel":
        _warn_lost_cells(path, lost_cells)
        return _of_sheet(path, frame)
    return Table(path, as_text(frame), list(range(len(frame))), named=True)


def _warn_lost_cells(path: Path, lost: list[str]) -> None:
    if lost:
        warnings.warn(
            f"{path.name}: {counted(len(lost), 'cell')} read as blank: {', '.join(lost[:3])}"
            + ", ..." * (len(lost) > 3)
            + "; correct the formulas, and save the sheet from a program that computes them",
            stacklevel=4,
        )


def _of_sheet(path: Path, sheet: DataFrame) -> Table:
    """Convert a sheet whose first row names the columns; rows are numbered as in Excel."""
    cells = as_text(sheet)
    if not len(cells):
        raise unreadable(
            path, expected="a header row", got="an empty sheet", remedy="add a header and rows"
        )
    names = [name.strip() or str(i + 1) for i, name in enumerate(cells.iloc[0])]
    frame = cells.iloc[1:].set_axis(names, axis=1)
    has_cells = ~(frame == "").all(axis=1)
    return Table(path, as_text(frame[has_cells]), (frame.index[has_cells] + 1).tolist())


def _unusable(path: Path, argument: str, got: str, delimiter: str) -> ArgumentError:
    return ArgumentError(
        argument,
        expected=f"a header and values separated by {DELIMITERS[delimiter]} in {path}",
        got=got,
        remedy="correct the file, or save the table again as CSV in UTF-8",
    )
