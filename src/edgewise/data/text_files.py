"""Text files, plain or gzipped, in UTF-8."""

from __future__ import annotations

import gzip
from pathlib import Path

from edgewise.data.files import find_files
from edgewise.errors import ArgumentError, MissingDataError


def read_text(path: Path) -> str:
    """All of a file, its lines ended by a newline alone.

    Raises:
        MissingDataError: there is no such file.
        ArgumentError: it is not text in UTF-8, or broken.
    """
    if not path.is_file():
        raise MissingDataError(f"{path}: no such file. Remedy: name a text file, or a .gz of one.")
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as f:
            text: str = f.read()
    except (UnicodeDecodeError, OSError, EOFError) as error:
        raise ArgumentError(
            str(path), expected="text in UTF-8", got=str(error), remedy="save it again as UTF-8"
        ) from error
    return text


def raw_texts(data: str, sources: dict[str, str]) -> dict[str, str]:
    """Files of a known data set by their names; see :func:`edgewise.data.files.find_files`."""
    folder = find_files(data, sources)
    return {name: read_text(folder / name) for name in sources}
