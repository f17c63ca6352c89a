"""Reading of inputs for prediction from a file, row by row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.frames import as_text, pandas_for, to_pandas
from edgewise.app.files.read_table import is_table, table_rows
from edgewise.app.files.reading import opened_text, text_form


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number and the cells by name of each row of a table with at least these
    columns. Each line of a file that is no table is one input, in the column ``input``.
    """
    if is_table(path):
        for line, row in table_rows(path, argument=str(path)):
            check_columns(path, columns, list(row))
            yield line, row
        return
    with opened_text(path, text_form(path).encoding) as text:
        lines = (line.rstrip("\r\n") for line in text)
        yield from ((n, {"input": line}) for n, line in enumerate(lines, 1) if line.strip())


def frame_rows(value: Any) -> list[dict[str, Any]]:
    """Return the rows of a data frame, with cells as in a CSV file; lists stay as they are."""
    frame: Any = to_pandas(value)
    pandas = pandas_for("reading a data frame")

    def cell(text: str, raw: Any) -> Any:
        if pandas.api.types.is_scalar(raw):
            return text
        return json.loads(text) if hasattr(raw, "tolist") else raw

    names = [str(name) for name in frame.columns]
    texts = as_text(frame).to_numpy().tolist()
    rows = zip(texts, frame.itertuples(index=False, name=None), strict=True)
    return [dict(zip(names, map(cell, *row), strict=True)) for row in rows]


def check_columns(path: Path, columns: Sequence[str], names: Sequence[str]) -> None:
    """Raise ArgumentError if a table does not have all required columns."""
    for column in columns:
        if column not in names:
            same = [name for name in names if name.lower() == column.lower()]
            raise ArgumentError(
                str(path),
                expected=f"a column {column!r}",
                got=f"the columns {', '.join(names)}" if names else "no columns",
                remedy=f"rename {same[0]!r} to {column!r}"
                if same
                else f"add a column {column!r}, or give this name to the column with the inputs",
            )
