"""Where data files are: under ``EDGEWISE_DATA``, or downloaded into a cache, and unpacked."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path, PureWindowsPath
from urllib.request import urlopen
from uuid import uuid4

from edgewise.errors import ArgumentError, MissingDataError

TIMEOUT = 60  # seconds without an answer
NAME = re.compile(r"\w[\w.+-]*", re.ASCII)  # of a data set or a file: no folder in or above it
DAMAGED = (EOFError, OSError, zlib.error, zipfile.BadZipFile, tarfile.TarError)


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
        ArgumentError: a name is a path, which might lead out of the folder.
        MissingDataError: a file is missing; names it, where it was looked for, and the remedy.

    """
    for name in (data, *files):
        check_name(name)
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


def not_published(data: str, files: Sequence[str]) -> Callable[[Path], None]:
    """The ``download`` of :func:`find_raw` for files that nobody has published by themselves."""

    def refuse(_folder: Path) -> None:
        raise MissingDataError(
            f"{data}: not published as files of their own. Remedy: set EDGEWISE_DATA to a folder "
            f"that holds {', '.join(f'{data}/raw/{name}' for name in files)}."
        )

    return refuse


def find_files(data: str, sources: Mapping[str, str]) -> Path:
    """:func:`find_raw` for files that are on the web.

    Args:
        data: the folder of the set.
        sources: the address of each file, by its name; it is gzipped where the name alone says so.
    """
    return find_raw(data, list(sources), partial(fetch, sources))


def check_name(name: str) -> None:
    """A data set or a file of one has a plain name.

    Raises:
        ArgumentError: it might be a path.
    """
    if not NAME.fullmatch(name):
        raise ArgumentError(
            "data.name",
            expected="letters, digits and _ . + - alone, in the names of a data set and its files",
            got=repr(name),
            remedy="name a data set; where the data sets are is for EDGEWISE_DATA to say",
        )


def fetch(sources: Mapping[str, str], folder: Path) -> None:
    """Download files into a folder; see :func:`find_files`."""
    for name, address in sources.items():
        with urlopen(address, timeout=TIMEOUT) as answer:
            content = answer.read()
        if address.endswith(".gz"):
            gzip.decompress(content)  # a page that says "not found" is no gzip file
        elif name.endswith(".gz"):
            content = gzip.compress(content)
        (folder / name).write_bytes(content)


def unreadable(
    path: Path | str, *, expected: str, got: str, remedy: str = "", line: int = 0
) -> ArgumentError:
    """The error for a file that is not what it has to be.

    Args:
        path: the file, which is the argument that the error names.
        expected: see :class:`ArgumentError`.
        got: likewise.
        remedy: likewise; to correct the line, or to copy the file again, where it is left out.
        line: where it was seen, counted from 1; nowhere in particular where it is 0.
    """
    where = f" in line {line}" if line else ""
    return ArgumentError(
        str(path),
        expected=expected,
        got=f"{got}{where}",
        remedy=remedy or ("correct this line" if line else "copy or download it again"),
    )


@contextmanager
def naming(*files: str | Path) -> Iterator[None]:
    """Errors about the data that were read from files, such as too little of them, name these."""
    names = [Path(file).name for file in files]
    try:
        yield
    except ArgumentError as error:
        if not names or any(name in str(error) for name in names):
            raise
        raise ArgumentError(
            error.argument,
            expected=error.expected,
            got=f"{error.got}, from {', '.join(names)}",
            remedy=error.remedy,
        ) from error


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar file into a folder, and write nothing outside of it.

    Raises:
        ArgumentError: it is damaged; or a member is neither a file nor a folder, such as a link, or
            has a name that leads out of the folder. Then nothing is unpacked.
    """
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, folder)
        else:
            _unpack_tar(archive, folder)
    except DAMAGED as error:
        raise unreadable(archive, expected="a whole zip or tar file", got=str(error)) from error


def _unpack_zip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where it was packed on Windows
            plain = member.is_dir() or kind in (0, stat.S_IFREG)
            _check_member(archive, member.filename, plain)
        packed.extractall(folder)


def _unpack_tar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        members = packed.getmembers()
        for member in members:
            _check_member(archive, member.name, member.isdir() or member.isreg())
        for member in members:  # extractall() would also set owners and modes
            content = packed.extractfile(member)
            if content:
                target = folder / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    shutil.copyfileobj(content, file)


def _check_member(archive: Path, name: str, plain: bool) -> None:
    path = PureWindowsPath(name)  # knows the separators, drives and roots of all systems
    if not plain or path.anchor or ".." in path.parts:
        raise unreadable(
            archive,
            expected="files and folders inside of the archive's own folder",
            got=repr(name) if plain else f"{name!r}, which is a link or a device",
            remedy="do not use this archive: it is damaged, or meant to do harm",
        )


def _download(raw: Path, data: str, files: list[str], download: Callable[[Path], None]) -> None:
    raw.parent.mkdir(parents=True, exist_ok=True)
    part = raw.with_name(f"raw.part-{uuid4().hex}")
    part.mkdir()  # not tempfile's, which only its owner may read
    try:
        try:
            download(part)
        except (*DAMAGED, HTTPException) as error:  # the last: it was cut off
            raise MissingDataError(
                f"{data}: the download failed ({error}). Remedy: check the network, or set "
                f"EDGEWISE_DATA to a folder that holds {'/'.join([data, 'raw', *files[:1]])} and "
                "the other files."
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
