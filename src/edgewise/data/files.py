"""Where data files are: under ``EDGEWISE_DATA``, or downloaded into a cache."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen
from uuid import uuid4

from edgewise.errors import MissingDataError

TIMEOUT = 60  # seconds without an answer


def data_root() -> Path | None:
    """The folder that ``EDGEWISE_DATA`` names; it is only ever read."""
    named = os.environ.get("EDGEWISE_DATA")
    return Path(named).expanduser() if named else None


def cache_root() -> Path:
    """Where downloads are kept: ``EDGEWISE_CACHE``, or ``~/.cache/edgewise``."""
    return Path(os.environ.get("EDGEWISE_CACHE") or "~/.cache/edgewise").expanduser()


def find_raw(data: str, files: list[str], download: Callable[[Path], None]) -> Path:
    """The folder ``<root>/<data>/raw`` that holds these files.

    Where ``EDGEWISE_DATA`` is not set, ``download`` fills an empty folder, which takes its final
    name in the cache only when all the files are in it: a half-finished download is never trusted.

    Raises:
        MissingDataError: a file is missing; names it, where it was looked for, and the remedy.

    """
    root = data_root()
    if root is not None:
        raw = root / data / "raw"
        _check(raw, files, f"put the files of {data} there, or unset EDGEWISE_DATA to download")
        return raw
    raw = cache_root() / data / "raw"
    if not raw.is_dir():
        _download(raw, data, files, download)
    _check(raw, files, f"delete {raw}, and it will be downloaded again")
    return raw


def find_files(data: str, sources: Mapping[str, str]) -> Path:
    """:func:`find_raw` for files that are on the web.

    Args:
        data: the folder of the set.
        sources: the address of each file, by its name; it is gzipped where the name alone says so.
    """
    return find_raw(data, list(sources), partial(_fetch, sources))


def _fetch(sources: Mapping[str, str], folder: Path) -> None:
    for name, address in sources.items():
        with urlopen(address, timeout=TIMEOUT) as answer:
            content = answer.read()
        if address.endswith(".gz"):
            gzip.decompress(content)  # a page that says "not found" is no gzip file
        elif name.endswith(".gz"):
            content = gzip.compress(content)
        (folder / name).write_bytes(content)


def _download(raw: Path, data: str, files: list[str], download: Callable[[Path], None]) -> None:
    raw.parent.mkdir(parents=True, exist_ok=True)
    part = raw.with_name(f"raw.part-{uuid4().hex}")
    part.mkdir()  # not tempfile's, which only its owner may read
    try:
        try:
            download(part)
        except (OSError, EOFError, HTTPException) as error:  # the last: it was cut off
            raise MissingDataError(
                f"{data}: the download failed ({error}). Remedy: check the network, or set "
                f"EDGEWISE_DATA to a folder that holds {data}/raw/{files[0]} and the other files."
            ) from error
        _check(part, files, "try again")
        try:
            part.rename(raw)
        except OSError:  # another process was faster, and its copy is as good
            if not raw.is_dir():
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _check(raw: Path, files: list[str], remedy: str) -> None:
    missing = [name for name in files if not (raw / name).is_file()]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise MissingDataError(f"{missing[0]}{others}: no such file in {raw}. Remedy: {remedy}.")
