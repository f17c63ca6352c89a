"""How every loader reads a file: unpacked, decoded, in lines and numbers, with damage named."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import math
import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from torch import Tensor

from edgewise.data.files import find_files, unreadable
from edgewise.errors import ArgumentError, MissingDataError

LARGEST = torch.finfo(torch.float32).max
LARGEST_WHOLE = 2**53  # above it a float skips some whole numbers
BLOCK = 2**20  # bytes that are decoded at once

DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError)
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
LEGACY = "cp1252"  # Latin-1 as Windows writes it, and everybody reads it


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """A file, opened and unpacked: gzip, bzip2, xz, or a zip with one file, by its name.

    Raises:
        MissingDataError: there is no such file.
        ArgumentError: it cannot be read, is no whole archive, or a zip of another number of files.
    """
    if not path.is_file():
        what = "a folder, and no file" if path.is_dir() else "no such file"
        raise MissingDataError(
            f"{path}: {what}. Remedy: name a file, plain or .gz, .bz2, .xz or .zip."
        )
    kind, opened = OPENED.get(path.suffix.lower(), ("file that can be read", _plain))
    try:
        if opened is not _plain and not path.stat().st_size:
            raise EOFError("an empty file")
        with opened(path) as file:
            yield file
    except DAMAGED as error:
        got = str(error) or type(error).__name__
        raise unreadable(path, expected=f"a whole {kind}", got=got) from error


def _plain(path: Path) -> IO[bytes]:
    return path.open("rb")


@contextmanager
def _only_member(path: Path) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive:
        names = [one.filename for one in archive.infolist() if not one.is_dir()]
        names = [name for name in names if not name.startswith("__MACOSX/")]
        if len(names) != 1:
            listed = f": {', '.join(names[:5])}" if names else ""
            raise unreadable(
                path,
                expected="a zip of one file",
                got=f"{len(names)}{listed}",
                remedy="unpack it, and name the file that is meant",
            )
        if archive.getinfo(names[0]).flag_bits & 1:
            raise zipfile.BadZipFile(f"{names[0]} needs a password")
        with archive.open(names[0]) as file:
            yield file


OPENED: dict[str, tuple[str, Callable[[Path], Any]]] = {
    ".gz": ("gzip file", gzip.open),
    ".bz2": ("bzip2 file", bz2.open),
    ".xz": ("xz file", lzma.open),
    ".zip": ("zip file", _only_member),
}
"""What a packed file is called, and how it is opened, by the end of its name."""


@contextmanager
def opened_text(path: Path, encoding: str) -> Iterator[IO[str]]:
    """The same as a text, with its line ends as they are."""
    with unpacked(path) as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        yield text


def read_bytes(path: Path) -> bytes:
    """All of a file, unpacked as :func:`unpacked` does.

    Raises:
        MissingDataError, ArgumentError: see :func:`unpacked`.
    """
    with unpacked(path) as file:
        return file.read()


class TextForm(NamedTuple):
    """How a text is written, and its size: what is known of it without keeping it."""

    encoding: str
    characters: int
    lines: int


def text_form(path: Path) -> TextForm:
    """Look a text through: UTF-8 or, by its first bytes, UTF-16 or UTF-32; else Windows-1252.

    The last is what "Latin-1" files are. It is recognised by its first letter that is not ASCII,
    and warned of; a text that is UTF-8 up to its middle is damaged, and refused.

    Raises:
        MissingDataError, ArgumentError: see :func:`unpacked`. Or it is no text, and holds nothing
            but white space; an error names the line.
    """
    with unpacked(path) as file:
        encoding = _by_first_bytes(path, file.read(64))
    try:
        return _looked_through(path, encoding)
    except _NotDecodedError as wrong:
        if encoding != "utf-8" or wrong.foreign:
            raise unreadable(
                path,
                expected=f"text in {encoding.removesuffix('-sig').upper()}, as it begins",
                got=f"{wrong.reason} ({wrong.byte:#04x})",
                remedy="save it again as UTF-8",
                line=wrong.line,
            ) from wrong
        line, byte = wrong.line, wrong.byte
    try:
        form = _looked_through(path, LEGACY)
    except _NotDecodedError as wrong:
        raise unreadable(
            path,
            expected="text in UTF-8, UTF-16 or Windows-1252",
            got=f"a byte that is in none of them ({wrong.byte:#04x})",
            remedy="save it again as UTF-8",
            line=wrong.line,
        ) from wrong
    letter = bytes([byte]).decode(LEGACY)
    warnings.warn(
        f"{path.name} is not UTF-8: it is read as Windows-1252 (Latin-1), with {letter!r} in line "
        f"{line}; save it as UTF-8 if that is wrong",
        stacklevel=3,
    )
    return form


class _NotDecodedError(Exception):
    """Where a text cannot be decoded, and whether there was a letter before that is not ASCII."""

    def __init__(self, error: UnicodeDecodeError, line: int, foreign: bool) -> None:
        super().__init__(error.reason)
        self.reason, self.line, self.foreign = error.reason, line, foreign
        self.byte: int = error.object[error.start]


def _by_first_bytes(path: Path, head: bytes) -> str:
    for mark, encoding in MARKS:
        if head.startswith(mark):
            return encoding
    if b"\0" not in head:
        return "utf-8"
    # Every second byte of Latin letters in UTF-16 is 0. Nothing else that is a text has such bytes.
    halves = head[0::2], head[1::2]
    for encoding, (letters, zeros) in (("utf-16-le", halves), ("utf-16-be", halves[::-1])):
        if not letters.count(0) and zeros.count(0) > len(zeros) / 2:
            return encoding
    raise unreadable(
        path, expected="a text", got="other bytes", remedy="save it as CSV or text in UTF-8"
    )


def _looked_through(path: Path, encoding: str) -> TextForm:
    decoder = codecs.getincrementaldecoder(encoding)()
    characters = lines = 0
    blank, foreign = True, False
    with unpacked(path) as file:
        while True:
            block = file.read(BLOCK)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode(encoding, "ignore")
                foreign = foreign or not before.isascii()
                raise _NotDecodedError(error, lines + before.count("\n") + 1, foreign) from error
            characters, lines = characters + len(text), lines + text.count("\n")
            blank, foreign = blank and not text.strip(), foreign or not text.isascii()
            if not block:
                break
    if blank:
        raise unreadable(path, expected="a text", got="none")
    return TextForm(encoding, characters, lines)


def check_memory(argument: str, needed: float, what: str, remedy: str) -> None:
    """Refuse what does not fit into the memory that is free, before it is read.

    Args:
        argument: what names the data.
        needed: bytes, estimated.
        what: is too large.
        remedy: what to do instead.

    Raises:
        ArgumentError: it does not fit.
    """
    available = _available_memory()
    if needed > available:
        raise ArgumentError(
            argument,
            expected=f"at most {available / 2**30:.1f} GiB, the memory that is free",
            got=f"{what}, which would need about {needed / 2**30:.1f} GiB",
            remedy=remedy,
        )


def _available_memory() -> float:
    """Bytes that are free, or can be made so; infinity where the system does not say."""
    try:
        fields = Path("/proc/meminfo").read_text().split()
        return float(fields[fields.index("MemAvailable:") + 1]) * 1024
    except (OSError, ValueError):
        try:
            return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            return math.inf


def read_text(path: Path) -> str:
    """All of a text, its lines ended by a newline alone.

    Raises:
        MissingDataError: there is no such file.
        ArgumentError: it is damaged, not UTF-8 (names the line), or holds nothing.
    """
    return _with_line_feeds(_decoded(path))


def read_own_text(path: Path) -> str:
    """The same of a person's own file, which may also be in Windows-1252; see :func:`text_form`.

    Raises:
        ArgumentError: also, memory cannot hold it.
    """
    return _with_line_feeds(_own(path))


def _own(path: Path) -> str:
    form = text_form(path)
    needed = 2 * form.characters  # with its line ends and with ours
    check_memory(str(path), needed, path.name, "give a part of it, or more memory")
    with opened_text(path, form.encoding) as text:
        return text.read()


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_lines(path: Path) -> list[str]:
    """The lines of a text, of which line feeds alone are the ends, without empty ones at its end.

    Raises:
        MissingDataError, ArgumentError: see :func:`read_text`.
    """
    return _lines_of(_decoded(path))


def read_own_lines(path: Path) -> list[str]:
    """The same of a person's own file, which may also be in Windows-1252; see :func:`text_form`."""
    return _lines_of(_own(path))


def _lines_of(text: str) -> list[str]:
    # Neither splitlines() nor universal newlines, for which more than a line feed ends a line.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
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
    encoding = _by_first_bytes(path, content[:64])
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        named = encoding.removesuffix("-sig").upper()
        got = f"{error.reason} ({error.object[error.start]:#04x})"
        raise unreadable(
            path, expected=f"text in {named}", got=got, remedy="save it again as UTF-8", line=line
        ) from error
    if not text.strip():
        raise unreadable(path, expected="a text", got="none")
    return text
