"""Text files, plain or gzipped, in UTF-8."""

from __future__ import annotations

import gzip
import urllib.request
from collections.abc import Callable
from pathlib import Path

from edgewise.data.files import find_raw
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
    """Files of a known data set by their names; see :func:`edgewise.data.files.find_raw`.

    Args:
        data: the folder of the set.
        sources: where each file can be downloaded, by its name.
    """
    folder = find_raw(data, list(sources), _downloads(sources))
    return {name: read_text(folder / name) for name in sources}


def _downloads(sources: dict[str, str]) -> Callable[[Path], None]:
    def download(folder: Path) -> None:
        for name, address in sources.items():
            with urllib.request.urlopen(address) as response:
                content = response.read()
            packed = name.endswith(".gz") and not address.endswith(".gz")
            (folder / name).write_bytes(gzip.compress(content) if packed else content)

    return download
