"""Answers as tables, written whole or not at all."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from edgewise.errors import ArgumentError
from edgewise.training import RunFolder
from edgewise.training.folder import finite

DELIMITERS = {".csv": ",", ".tsv": "\t"}
FORMS = (".csv", ".tsv", ".jsonl")


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
