"""Reading of Parquet, Feather and Excel files, whose sizes are checked before cells are read."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise._utils.limits import LIMITS, check_memory
from edgewise.app.files.frames import pandas_for

if TYPE_CHECKING:
    from pandas import DataFrame

BYTES_PER_CELL = 100  # Memory of a cell in Arrow, in a data frame and as text.
BYTES_OF_XML = 4  # Memory of openpyxl per byte of an unpacked workbook.
CHUNK = 4096  # Number of rows of a sheet between two checks.
NO_CELLS: list[Any] = []  # One list for all the empty rows before a row that is far below.
ADVICE = "use fewer rows, or more memory"


def read_parquet(path: Path, content: bytes) -> DataFrame:
    """Read a Parquet file whose number of values is within the limit ``table_cells``."""
    from pyarrow import parquet

    metadata = parquet.ParquetFile(io.BytesIO(content)).metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    # A list in a cell has several values.
    columns = range(metadata.num_columns)
    values = sum(group.column(i).num_values for group in groups for i in columns)
    unpacked = sum(group.total_byte_size for group in groups)
    _check(path, max(values, metadata.num_rows), unpacked)
    frame: DataFrame = pandas_for("reading a table").read_parquet(io.BytesIO(content))
    return frame


def read_feather(path: Path, content: bytes) -> DataFrame:
    """Read a Feather file whose number of cells is within the limit ``table_cells``."""
    from pyarrow import ipc

    if content.startswith(b"ARROW1"):  # Version 1 of the format has no compression.
        reader = ipc.open_file(io.BytesIO(content))
        _check(path, reader.count_rows() * max(1, len(reader.schema)), len(content))
    frame: DataFrame = pandas_for("reading a table").read_feather(io.BytesIO(content))
    return frame


def _check(path: Path, cells: int, num_bytes: int) -> None:
    LIMITS["table_cells"].check(cells, path)
    check_memory(str(path), BYTES_PER_CELL * cells + num_bytes, path.name, ADVICE)


def read_excel(path: Path, content: bytes) -> tuple[DataFrame, list[str]]:
    """Read the first sheet as a frame of objects, and describe the cells that are read as empty:
    errors such as ``#N/A``, and formulas without values. ``pandas.read_excel`` would create all
    cells up to one that is far away from the others.
    """
    from openpyxl import load_workbook

    most_rows = LIMITS["sheet_rows"]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
        LIMITS["workbook_bytes"].check(unpacked, path)
        check_memory(str(path), BYTES_OF_XML * unpacked, path.name, ADVICE)
        for name in archive.namelist():
            most_rows.check(_count_rows(archive, name), path)
    workbooks = [
        load_workbook(io.BytesIO(content), read_only=True, data_only=data_only, keep_links=False)
        for data_only in (True, False)  # Values, then formulas.
    ]
    try:
        sheets = [workbook.worksheets[0] for workbook in workbooks]
        for sheet in sheets:
            sheet.reset_dimensions()  # The dimensions in a file may be wrong.
        most = most_rows.value
        rows: list[list[Any]] = []
        lost_cells: list[str] = []
        width = num_rows = 0
        both = zip(*(sheet.iter_rows() for sheet in sheets), strict=True)
        for number, (cells, formulas) in enumerate(both, 1):
            if number > most:
                most_rows.check(number, path)
            lost_cells += _lost(cells, formulas)
            row = [_value(cell) for cell in cells] if cells else NO_CELLS
            while row and row[-1] is None:
                row.pop()
            rows.append(row)
            if row:
                num_rows = number
                if len(row) > width or number % CHUNK == 0:
                    width = max(width, len(row))
                    _check(path, number * width, 0)
        _check(path, num_rows * width, 0)
    finally:
        for workbook in workbooks:
            workbook.close()
    filled = [row + [None] * (width - len(row)) for row in rows[:num_rows]]
    frame: DataFrame = pandas_for("reading a table").DataFrame(filled, dtype=object)
    return frame, lost_cells


def _count_rows(archive: zipfile.ZipFile, name: str) -> int:
    """Count the row elements of a file, which is 100 times as fast as parsing them."""
    with archive.open(name) as file:
        blocks = iter(lambda: file.read(2**20), b"")
        # A name space may have a prefix.
        return sum(block.count(b"<row") + block.count(b":row") for block in blocks)


def _lost(cells: Iterable[Any], formulas: Iterable[Any]) -> Iterator[str]:
    for cell, formula in zip(cells, formulas, strict=True):
        if cell.data_type == "e":
            yield f"{cell.value} in {cell.coordinate}"
        elif cell.value is None and formula.data_type == "f":
            yield f"no value of the formula in {formula.coordinate}"


def _value(cell: Any) -> Any:
    value = None if cell.data_type == "e" or cell.value == "" else cell.value
    return int(value) if isinstance(value, float) and value.is_integer() else value
