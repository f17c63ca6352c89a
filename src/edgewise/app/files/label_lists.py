"""Columns with several labels in a cell, such as ``sports|politics``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.frames import cell_text, pandas_for
from edgewise.app.files.labels import distinct_labels
from edgewise.app.files.reading import read_json
from edgewise.app.files.table import Table

SEPARATORS = ("|", ";", ",")
ARRAYS = "["
"""Value of ``separator`` for cells that are JSON arrays; lists in Parquet files are read so."""


def find_separator(cells: Sequence[str]) -> str:
    """Return the separator of the labels in a cell, or "". It is accepted only if the cells have
    different numbers of labels, and if there are fewer distinct labels than distinct cells, because
    a single label may contain such a character.
    """
    distinct = {cell.strip() for cell in cells if cell.strip()}
    if distinct and all(_array(cell) is not None for cell in distinct):
        return ARRAYS
    for separator in SEPARATORS:
        lists = [split_labels(cell, separator) for cell in distinct]
        labels = {label for cell_labels in lists for label in cell_labels}
        if len({len(cell_labels) for cell_labels in lists}) > 1 and len(labels) < len(distinct):
            return separator
    return ""


def split_labels(cell: str, separator: str) -> list[str]:
    """Return the labels in a cell; a blank cell has none."""
    if separator == ARRAYS:
        labels = _array(cell) or []
    else:  # White space beside a separator is not part of a label.
        labels = [label.strip() for label in cell.split(separator)]
    return [label for label in labels if label.strip()]


def label_columns(
    table: Table, column: str, separator: str, argument: str, labels: Sequence[str] = ()
) -> Table:
    """Return a table of 0 and 1 with one column for each label, and no other columns. Unless
    ``labels`` is empty, a label outside of it is an error.
    """
    lists = [split_labels(cell, separator) for cell in table.texts(argument, column)]
    present = (label for row_labels in lists for label in row_labels)
    source = f"column {column!r} of {table.path.name}"
    names = list(labels) or distinct_labels(present, argument, source)
    for row, cell_labels in enumerate(lists):
        for label in set(cell_labels) - set(names):
            raise ArgumentError(
                argument,
                expected=f"labels of the training table in column {column!r}",
                got=f"{label[:60]!r} in row {table.line(row)} of {table.path.name}",
                remedy="correct this row, or add training rows with this label",
            )
    sets = list(map(set, lists))
    cells = {name: ["1" if name in cell_labels else "0" for cell_labels in sets] for name in names}
    return replace(table, frame=pandas_for("reading a table").DataFrame(cells, dtype=str))


def _array(cell: str) -> list[str] | None:
    try:
        labels = read_json(cell) if cell.lstrip().startswith("[") else None
    except ValueError:
        return None
    return list(map(cell_text, labels)) if isinstance(labels, list) else None
