"""Write predictions to a CSV, TSV or JSON Lines file."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from edgewise._utils.digits import map_leaves, saved
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.reading import number
from edgewise.app.train.folder import RunFolder, finite, refuse_run_file

DELIMITERS = {".csv": ",", ".tsv": "\t"}
FORMS = (".csv", ".tsv", ".jsonl")


def flat(
    answer: Mapping[str, Any], effect: Callable[[float], str] = "{:+}".format
) -> list[dict[str, Any]]:
    """Convert a prediction to rows of a table, one for each dict in a list of dicts; the first has
    the explanation ``why``, whose numbers ``effect`` formats.
    """

    def cell(value: Any) -> Any:
        return _cell(value, effect)

    lists = [name for name, value in answer.items() if is_of_dicts(value)]
    plain = {n: cell(v) for n, v in answer.items() if n not in lists}
    if not lists:
        return [plain]
    rows, rank_key = answer[lists[0]], "predicted_rank" if "rank" in plain else "rank"
    further = plain | ({"why": ""} if "why" in plain else {})
    return [
        {
            **(plain if rank == 1 else further),
            rank_key: rank,
            **{n: cell(v) for n, v in row.items()},
        }
        for rank, row in enumerate(rows, 1)
    ] or [plain]


def is_of_dicts(value: Any) -> bool:
    """Return whether a value is a list of dicts, each of which becomes a row of a table."""
    return isinstance(value, list) and all(isinstance(row, Mapping) for row in value)


def _cell(value: Any, effect: Callable[[float], str]) -> Any:
    if not isinstance(value, (list, tuple)):
        return value
    return "; ".join(
        f"{item[0]} {effect(item[1])}" if isinstance(item, (list, tuple)) else str(item)
        for item in value
    )


def _saved(value: Any) -> Any:
    return saved(value) if isinstance(value, float) else value


def check_form(path: Path) -> None:
    """Raise ArgumentError if a suffix is not one of ``FORMS``, or the file belongs to a run."""
    if path.suffix.lower() not in FORMS:
        raise ArgumentError(
            "--out",
            expected=f"a name that ends in {', '.join(FORMS)}",
            got=path.name,
            remedy=f"write for example to {path.parent / 'predictions.csv'}",
        )
    refuse_run_file("--out", path)


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of texts that a spreadsheet may run as a formula."""


def quoted(value: Any) -> Any:
    """Return a text that a spreadsheet would take for a formula with an apostrophe before it."""
    if not isinstance(value, str) or not value.lstrip(" ").startswith(FORMULA):
        return value
    return value if value.startswith("-") and math.isfinite(number(value)) else f"'{value}"


def write_answers(
    path: Path, answers: Iterable[Mapping[str, Any]], *, quote_formulas: bool = False
) -> None:
    """Write predictions one by one to a temporary file, which is renamed when it is complete."""
    check_form(path)
    folder, form = RunFolder(path.parent), path.suffix.lower()
    folder.make()

    def write_objects(temporary: Path) -> list[str]:
        names: dict[str, None] = {}
        # Lone surrogates cannot be encoded; they are written as \udxxx escapes, as in JSON.
        with temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
            for answer in answers:
                short = map_leaves(answer, _saved)
                for row in [short] if form == ".jsonl" else flat(short):
                    names.update(dict.fromkeys(row))
                    file.write(json.dumps(finite(row), ensure_ascii=False) + "\n")
        return list(names)

    def write_table(temporary: Path) -> None:
        # All columns are known only at the end, so rows are kept in a temporary file until then.
        rows = temporary.with_suffix(".rows")
        names = write_objects(rows)
        with (
            rows.open(encoding="utf-8") as lines,
            temporary.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
        ):
            writer = csv.DictWriter(file, names, delimiter=DELIMITERS[form])
            edit = quoted if quote_formulas else (lambda value: value)
            writer.writerow({name: edit(name) for name in names})
            for row in map(json.loads, lines):
                writer.writerow({name: edit(value) for name, value in row.items()})

    folder.write(path.name, write_objects if form == ".jsonl" else write_table)
