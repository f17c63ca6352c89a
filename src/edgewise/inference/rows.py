"""Tables of inputs, read row by row, and of answers, written whole or not at all."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from edgewise.data.reading import OPENED, opened_text, text_form
from edgewise.data.table import table_rows
from edgewise.errors import ArgumentError
from edgewise.training import RunFolder
from edgewise.training.folder import finite

DELIMITERS = {".csv": ",", ".tsv": "\t"}
OBJECTS = (".jsonl", ".ndjson")
FORMS = (".csv", ".tsv", ".jsonl")


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file and the numbers of their lines; no more than one is in memory.

    ``.csv`` and ``.tsv`` have a header and any delimiter, ``.jsonl`` and ``.ndjson`` have an object
    in each line; of every other file a line is an input, under the name ``input``. Each may be
    packed, such as in ``.gz``; encodings are recognised as
    :func:`edgewise.data.reading.text_form` does.

    Args:
        path: the file.
        columns: those that a table must have.

    Raises:
        MissingDataError: there is no such file.
        ArgumentError: a column is missing, a row has another length, or the file is damaged.

    """
    form = form_of(path)
    if form in DELIMITERS:
        yield from _table(path, columns)
        return
    with opened_text(path, text_form(path).encoding) as text:
        if form in OBJECTS:
            yield from _objects(text, path, columns)
        else:
            lines = (line.rstrip("\r\n") for line in text)
            yield from ((n, {"input": line}) for n, line in enumerate(lines, 1) if line.strip())


def read_json(text: str) -> Any:
    """What a text in JSON says.

    Raises:
        ValueError: it is none, has a number of thousands of digits, or is nested too deeply.

    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("lists in lists without an end") from error


def is_table(path: Path) -> bool:
    """Whether a file has rows with names: a table or objects, plain or packed."""
    return form_of(path) in {*DELIMITERS, *OBJECTS}


def form_of(path: Path) -> str:
    """How a file's name ends, such as ``.csv``, packed or not."""
    return Path(path.stem if path.suffix.lower() in OPENED else path.name).suffix.lower()


def _table(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = table_rows(path, argument=str(path))
    _, names = next(rows)
    check_columns(path, columns, names)
    yield from ((line, dict(zip(names, row, strict=True))) for line, row in rows)


def _objects(
    text: IO[str], path: Path, columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text, 1):
        if not line.strip():
            continue
        try:
            row = read_json(line)
        except ValueError as error:
            raise _damaged(path, "an object in each line", f"{error} in line {number}") from error
        if not isinstance(row, dict):
            raise _damaged(path, "an object in each line", f"{line[:40]!r} in line {number}")
        check_columns(path, columns, list(row))
        yield number, row


def check_columns(path: Path, columns: Sequence[str], names: Sequence[str]) -> None:
    """Refuse a table without a column that the run was trained on."""
    for column in columns:
        if column not in names:
            same = [name for name in names if name.lower() == column.lower()]
            raise ArgumentError(
                str(path),
                expected=f"a column {column!r}",
                got=f"the columns {', '.join(names)}" if names else "none",
                remedy=f"rename {same[0]!r} to {column!r}"
                if same
                else f"name it {column!r}, as in the table that was trained on",
            )


def _damaged(path: Path, expected: str, got: str) -> ArgumentError:
    return ArgumentError(str(path), expected=expected, got=got, remedy="correct the file")


def flat(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """An answer as rows of a table: one, or one for each dict of a list in it, with its rank."""
    lists = [name for name, value in answer.items() if is_of_dicts(value)]
    plain = {n: _cell(v) for n, v in answer.items() if n not in lists}
    if not lists:
        return [plain]
    rows, place = answer[lists[0]], "predicted_rank" if "rank" in plain else "rank"
    return [
        {**plain, place: rank, **{n: _cell(v) for n, v in row.items()}}
        for rank, row in enumerate(rows, 1)
    ] or [plain]


def is_of_dicts(value: Any) -> bool:
    """Whether a value of an answer becomes rows of a table."""
    return isinstance(value, list) and all(isinstance(one, Mapping) for one in value)


def _cell(value: Any) -> Any:
    return "; ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def check_form(path: Path) -> None:
    """Refuse a file of answers that has neither form.

    Raises:
        ArgumentError: its name does not end in one of them.

    """
    if path.suffix.lower() not in FORMS:
        raise ArgumentError(
            "--out",
            expected=f"a name that ends in {', '.join(FORMS)}",
            got=path.name,
            remedy=f"write {path.stem}.csv",
        )


def write_answers(path: Path, answers: Iterable[Mapping[str, Any]]) -> None:
    """Write answers as they come; the file takes its name when it is complete.

    Args:
        path: a table (``.csv``, ``.tsv``), of the columns that any answer has, or ``.jsonl``.
        answers: see :meth:`edgewise.inference.Predictor.answer`.

    Raises:
        ArgumentError: the name ends otherwise.
        WriteError: it cannot be written.

    """
    check_form(path)
    folder, form = RunFolder(path.parent), path.suffix.lower()
    folder.make()

    def objects(part: Path) -> list[str]:
        names: dict[str, None] = {}
        # What Unicode does not have, such as half a letter, is written as JSON does: by number.
        with part.open("w", encoding="utf-8", errors="backslashreplace") as file:
            for answer in answers:
                for row in [answer] if form == ".jsonl" else flat(answer):
                    names.update(dict.fromkeys(row))
                    file.write(json.dumps(finite(row), ensure_ascii=False) + "\n")
        return list(names)

    def table(part: Path) -> None:
        # Only at the end are all columns known: the rows wait in a file, not in memory.
        rows = part.with_name(part.name + ".rows")
        try:
            names = objects(rows)
            with (
                rows.open(encoding="utf-8") as kept,
                part.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
            ):
                writer = csv.DictWriter(file, names, delimiter=DELIMITERS[form])
                writer.writeheader()
                writer.writerows(map(json.loads, kept))
        finally:
            rows.unlink(missing_ok=True)

    folder.write(path.name, objects if form == ".jsonl" else table)
