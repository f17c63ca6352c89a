"""How every loader reads a file: unpacked, decoded, in lines and numbers, with damage named."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from edgewise.data.files import find_files, unreadable
from edgewise.errors import MissingDataError

LARGEST = torch.finfo(torch.float32).max
LARGEST_WHOLE = 2**53  # above it a float skips some whole numbers


def read_bytes(path: Path) -> bytes:
    """All of a file, unpacked where its name ends in ``.gz``.

    Raises:
        MissingDataError: there is no such file.
        ArgumentError: it cannot be read, or is no whole gzip file.
    """
    if not path.is_file():
        raise MissingDataError(f"{path}: no such file. Remedy: name a file, plain or .gz.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(path, expected="a file that can be read", got=str(error)) from error
    if path.suffix != ".gz":
        return content
    try:
        if not content:
            raise EOFError("an empty file")
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, expected="a whole gzip file", got=str(error)) from error


def read_text(path: Path) -> str:
    """All of a text, its lines ended by a newline alone.

    Raises:
        MissingDataError: there is no such file.
        ArgumentError: it is damaged, not UTF-8 (names the line), or holds nothing.
    """
    return _decoded(path).replace("\r\n", "\n").replace("\r", "\n")


def read_lines(path: Path) -> list[str]:
    """The lines of a text, of which line feeds alone are the ends, without empty ones at its end.

    Raises:
        MissingDataError, ArgumentError: see :func:`read_text`.
    """
    # Neither splitlines() nor universal newlines, for which more than a line feed ends a line.
    lines = [line.removesuffix("\r") for line in _decoded(path).split("\n")]
    while not lines[-1].strip():
        lines.pop()
    return lines


def read_numbers(path: Path, *, integers: bool = False) -> Tensor:
    """A row of numbers from each line, between commas, ``[lines, columns]``.

    Args:
        path: the file.
        integers: whether they have to be integers; they are then given as int64.

    Raises:
        MissingDataError, ArgumentError: see :func:`read_text`. Or a value is no number, not whole,
            or not one that float32 can hold, or a line has more or fewer of them than the first;
            names line and column.
    """
    rows = []
    for line_number, line in enumerate(read_lines(path), 1):
        fields = line.split(",")
        row = [number(field) for field in fields]
        for column, value in enumerate(row, 1):
            if not math.isfinite(value) or (integers and not is_whole(value)):
                expected = "whole numbers" if integers else "finite numbers, at most 3.4e38,"
                got = f"{fields[column - 1].strip()[:60]!r} in column {column}"
                expected = f"{expected} between commas"
                raise unreadable(path, expected=expected, got=got, line=line_number)
        rows.append(row)
        if len(row) != len(rows[0]):
            expected = f"{len(rows[0])} numbers in each line"
            raise unreadable(path, expected=expected, got=str(len(row)), line=line_number)
    return torch.tensor(rows, dtype=torch.double).to(torch.long if integers else torch.float32)


def number(text: str) -> float:
    """The number that a text is; NaN where it is none, or one that float32 cannot hold."""
    try:
        value = math.nan if "_" in text else float(text)  # 1_000 is Python's alone
    except ValueError:
        return math.nan
    return value if abs(value) <= LARGEST else math.nan


def is_whole(value: float) -> bool:
    """Whether a number is whole, and none other was rounded to it."""
    return value.is_integer() and abs(value) < LARGEST_WHOLE


def raw_texts(data: str, sources: dict[str, str]) -> dict[str, str]:
    """Files of a known data set by their names; see :func:`edgewise.data.files.find_files`."""
    folder = find_files(data, sources)
    return {name: read_text(folder / name) for name in sources}


def check_line_count(path: Path, got: Sequence[object] | Tensor, wanted: int, what: str) -> None:
    """A file has as many lines as there are things to describe.

    Raises:
        ArgumentError: it has more or fewer.
    """
    if len(got) != wanted:
        raise unreadable(
            path,
            expected=f"a line for each of the {wanted} {what}",
            got=f"{len(got)} lines",
            remedy="bring the files of one and the same data set together",
        )


def _decoded(path: Path) -> str:
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        remedy = "save it again as UTF-8"
        got = f"{error.reason} ({content[error.start]:#04x})"
        raise unreadable(
            path, expected="text in UTF-8", got=got, remedy=remedy, line=line
        ) from error
    if not text.strip():
        raise unreadable(path, expected="a text", got="none")
    return text
