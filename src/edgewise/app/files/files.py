"""Files of public data sets: folder, download and checksums."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise._utils.writing import temporary_folder
from edgewise.app.files.checksums import GIT_BLOBS, SHA256

TIMEOUT = 60  # Seconds without an answer from the server.
NAME = re.compile(r"\w[\w.+-]*", re.ASCII)  # Name of a data set or file, without a folder.
MEDIA = (".jpg", ".wav")  # Suffixes of the files that the digest of a folder covers.
DAMAGED = (EOFError, OSError, zlib.error, zipfile.BadZipFile)


def data_root() -> Path | None:
    """Return the folder named by the environment variable ``EDGEWISE_DATA``, which is only read."""
    folder = os.environ.get("EDGEWISE_DATA")
    return Path(folder).expanduser() if folder else None


def cache_root() -> Path:
    """Return the folder for downloads: ``$EDGEWISE_CACHE``, or ``~/.cache/edgewise``."""
    return Path(os.environ.get("EDGEWISE_CACHE") or "~/.cache/edgewise").expanduser()


def find_raw(data: str, files: Sequence[str], download: Callable[[Path], None]) -> Path:
    """Return the verified folder ``<root>/<data>/raw``; the root is ``EDGEWISE_DATA``, or the
    cache.

    If the cache has no such folder, ``download`` fills an empty folder, which gets its final name
    once all files are complete: an interrupted download is never used.
    """
    for name in (data, *files):
        check_name(name)
    root, again = data_root(), ""
    if root is not None:
        raw = root / data / "raw"
        _check_present(
            raw, files, f"put the files of {data} there, or unset EDGEWISE_DATA to download them"
        )
    else:
        raw = cache_root() / data / "raw"
        if not raw.is_dir():
            _download(raw, data, files, download)
        again = f"delete {raw}, and it will be downloaded again"
        _check_present(raw, files, again)
    for name in files:
        verify(data, raw / name, again)
    return raw


def verify(data: str, path: Path, remedy: str = "") -> None:
    """Raise ArgumentError if a file or folder differs from its SHA-256. A path without a digest is
    accepted, so its loader must not unpickle it.
    """
    expected = SHA256.get(data, {}).get(path.name)
    if expected is None:
        return
    status = path.stat()
    digest = (
        _folder_digest(path)
        if path.is_dir()
        else _digest(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    )
    if digest != expected and _git_blob(data, path) is None:
        raise _unpublished(path, expected, digest, remedy)


def read_verified(data: str, name: str, folder: Path) -> bytes:
    """Return the content of a file, verified on the same bytes: a file that is verified by its path
    may be replaced before it is read.
    """
    content, expected = (folder / name).read_bytes(), SHA256[data][name]
    digest = hashlib.sha256(content).hexdigest()
    if digest != expected:
        raise _unpublished(folder / name, expected, digest)
    return content


def _unpublished(path: Path, expected: str, digest: str, remedy: str = "") -> ArgumentError:
    published = f"the published content, SHA-256 {expected}"
    return unreadable(path, expected=published, got=f"SHA-256 {digest}", remedy=remedy)


@lru_cache(maxsize=1024)  # Several loaders read the same files.
def _digest(path: Path, *_state: int) -> str:
    """Return the SHA-256 of a file, decompressed if it is ``.gz``; ``_state`` is part of the
    cache's key.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except DAMAGED as error:
        raise unreadable(path, expected="a complete file", got=str(error)) from error


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for name in sorted(
        file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.suffix in MEDIA
    ):
        digest.update(name.encode() + (folder / name).read_bytes())
    return digest.hexdigest()


def _git_blob(data: str, path: Path) -> str | None:
    """Return the Git object id of a file if the data set accepts this id, else ``None``."""
    accepted = GIT_BLOBS.get(data, {}).get(path.name)
    if accepted is None:
        return None
    content = path.read_bytes()
    blob_id = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return blob_id if blob_id == accepted else None


def not_published(data: str, files: Sequence[str]) -> Callable[[Path], None]:
    """Return a ``download`` for :func:`find_raw` that raises an error, for unpublished files."""

    def refuse(_folder: Path) -> None:
        raise MissingDataError(
            f"{data}: not available for download. Remedy: set EDGEWISE_DATA to a folder "
            f"that holds {', '.join(f'{data}/raw/{name}' for name in files)}."
        )

    return refuse


def find_files(data: str, sources: Mapping[str, str]) -> Path:
    """Return the folder of the files, downloaded from these addresses if needed. A ``.gz`` file is
    compressed after the download if its address does not end in ``.gz``.
    """
    return find_raw(data, list(sources), partial(fetch, sources))


def check_name(name: str) -> None:
    """Raise ArgumentError if the name of a data set or file contains a folder."""
    if not NAME.fullmatch(name):
        raise ArgumentError(
            "data.name",
            expected="only letters, digits and _ . + - in the name of a data set or file",
            got=repr(name),
            remedy="give only the name of the data set here; set EDGEWISE_DATA to the folder of "
            "the data sets",
        )


def fetch(sources: Mapping[str, str], folder: Path) -> None:
    """Download files, by their names and addresses, into a folder."""
    for name, address in sources.items():
        with urlopen(address, timeout=TIMEOUT) as answer:
            content = answer.read()
        if address.endswith(".gz"):
            gzip.decompress(content)  # Decompression fails if the server sent an error page.
        elif name.endswith(".gz"):
            content = gzip.compress(content)
        (folder / name).write_bytes(content)


def unreadable(
    path: Path | str, *, expected: str, got: str, remedy: str = "", line: int = 0
) -> ArgumentError:
    """Return the error for a file with wrong content, in a line counted from 1 (0: no line)."""
    where = f" in line {line}" if line else ""
    return ArgumentError(
        str(path),
        expected=expected,
        got=f"{got}{where}",
        remedy=remedy or ("correct this line" if line else "copy or download this file again"),
    )


@contextmanager
def naming(*files: str | Path) -> Iterator[None]:
    """In a ``with`` block, add the names of the files to errors that name none of them."""
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


def _download(raw: Path, data: str, files: Sequence[str], download: Callable[[Path], None]) -> None:
    raw.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(raw.parent) as temporary:
        new = temporary / raw.name
        new.mkdir()  # Unlike the temporary folder, other users can read it.
        try:
            download(new)
            for name in files:
                if (new / name).is_file():
                    verify(data, new / name)
        except (*DAMAGED, HTTPException, ArgumentError) as error:
            raise MissingDataError(
                f"{data}: the download failed ({error}). Remedy: check the network, or set "
                f"EDGEWISE_DATA to a folder that holds {'/'.join([data, 'raw', *files[:1]])} and "
                "the other files."
            ) from error
        _check_present(new, files, "try again")
        try:
            new.rename(raw)
        except OSError:  # Another process has finished the same download.
            if not raw.is_dir():
                raise


def _check_present(raw: Path, files: Sequence[str], remedy: str) -> None:
    missing = [name for name in files if not (raw / name).is_file()]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise MissingDataError(f"{missing[0]}{others}: no such file in {raw}. Remedy: {remedy}.")
