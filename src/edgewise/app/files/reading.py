"""Reading of files: decompression, decoding, lines and numbers. Errors name the damaged line."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import logging
import lzma
import math
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from torch import Tensor

from edgewise._utils.errors import MissingDataError, counted
from edgewise._utils.limits import LIMITS, check_memory
from edgewise.app.files.files import find_files, unreadable

log = logging.getLogger("edgewise.app.files")
"""Logger of notes on how data are read, at level INFO. Commands print them."""

LARGEST = torch.finfo(torch.float32).max
LARGEST_WHOLE = 2**53  # A float represents all integers up to this number.
BLOCK = 2**20  # Number of bytes that are decoded at once.

DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError)
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # UTF-32 is tested first, because its byte order mark starts with the mark of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
LEGACY = "cp1252"  # Superset of Latin-1 that Windows writes.


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, decompressed if its suffix is ``.gz``, ``.bz2``, ``.xz`` or ``.zip``. Content
    above the limit ``unpacked_bytes`` is an error.
    """
    if not path.is_file():
        what = "a folder, not a file" if path.is_dir() else "no such file"
        raise MissingDataError(
            f"{path}: {what}. Remedy: give the path of a file, plain or .gz, .bz2, .xz or .zip."
        )
    kind, opened = OPENED.get(path.suffix.lower(), ("readable file", _plain))
    try:
        if opened is not _plain and not path.stat().st_size:
            raise EOFError("an empty file")
        with opened(path) as file:
            yield file if opened is _plain else io.BufferedReader(_Counted(file, path))
    except DAMAGED as error:
        got = str(error) or type(error).__name__
        raise unreadable(path, expected=f"a complete {kind}", got=got) from error


def _plain(path: Path) -> IO[bytes]:
    return path.open("rb")


class _Counted(io.RawIOBase):
    """Unpacked content of a file, up to the limit ``unpacked_bytes``."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        super().__init__()
        self.file, self.path, self.size = file, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self.file.read(len(buffer))
        buffer[: len(content)] = content
        self.size += len(content)
        LIMITS["unpacked_bytes"].check(self.size, self.path)
        return len(content)


@contextmanager
def _only_member(path: Path) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive:
        names = [member.filename for member in archive.infolist() if not member.is_dir()]
        names = [name for name in names if not name.startswith("__MACOSX/")]
        if len(names) != 1:
            listed = f": {', '.join(names[:5])}" if names else ""
            raise unreadable(
                path,
                expected="a zip archive with one file",
                got=f"{len(names)} files{listed}",
                remedy="unpack the archive, and name one of its files",
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
"""Dict from the suffix of a compressed file to the name of its kind, and how to open it."""


@contextmanager
def opened_text(path: Path, encoding: str) -> Iterator[IO[str]]:
    """Open a file like :func:`unpacked`, decoded to text with unchanged line ends."""
    with unpacked(path) as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        yield text


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, decompressed as by :func:`unpacked`."""
    blocks: list[bytes] = []
    size = 0
    with unpacked(path) as file:
        while block := file.read(16 * BLOCK):
            blocks.append(block)
            size += len(block)
            # Joining the blocks needs their size once more.
            check_memory(str(path), size, path.name, "use a part of the file, or more memory")
    return b"".join(blocks)


class TextForm(NamedTuple):
    """Encoding and size of a text file."""

    encoding: str
    characters: int
    lines: int


def text_form(path: Path, *, by_line: bool = False) -> TextForm:
    """Detect the encoding of a text file, and count its characters and lines. If the first non-
    ASCII character is not valid UTF-8, the file is read as Windows-1252, with a warning; if only a
    later character is invalid, the file is damaged. ``by_line`` applies the limit
    ``line_characters``.
    """
    if by_line:
        # The module csv refuses cells that are longer, and has no argument for this.
        csv.field_size_limit(max(csv.field_size_limit(), LIMITS["line_characters"].value))
    with unpacked(path) as file:
        encoding = _by_first_bytes(path, file.read(64))
    try:
        return _looked_through(path, encoding, by_line)
    except _NotDecodedError as wrong:
        if encoding != "utf-8" or wrong.foreign:
            raise unreadable(
                path,
                expected=f"text in {encoding.removesuffix('-sig').upper()}, the encoding of the "
                "start of the file",
                got=f"{wrong.reason} ({wrong.byte:#04x})",
                remedy="save the file again as UTF-8",
                line=wrong.line,
            ) from wrong
        line, byte = wrong.line, wrong.byte
    try:
        form = _looked_through(path, LEGACY, by_line)
    except _NotDecodedError as wrong:
        raise unreadable(
            path,
            expected="text in UTF-8, UTF-16 or Windows-1252",
            got=f"a byte that is invalid in these encodings ({wrong.byte:#04x})",
            remedy="save the file again as UTF-8",
            line=wrong.line,
        ) from wrong
    letter = bytes([byte]).decode(LEGACY)
    warnings.warn(
        f"{path.name} is not UTF-8: it is read as Windows-1252 (Latin-1), with {letter!r} in line "
        f"{line}; if this is wrong, save the file as UTF-8",
        stacklevel=3,
    )
    return form


class _NotDecodedError(Exception):
    """Error: a byte cannot be decoded; ``foreign`` if valid non-ASCII text precedes it."""

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
    # In UTF-16, every second byte of Latin letters is 0; other encodings of text have no zero
    # bytes.
    halves = head[0::2], head[1::2]
    for encoding, (letters, zeros) in (("utf-16-le", halves), ("utf-16-be", halves[::-1])):
        if not letters.count(0) and zeros.count(0) > len(zeros) / 2:
            return encoding
    raise unreadable(
        path,
        expected="a text file",
        got="binary data",
        remedy="save the file as CSV or text in UTF-8",
    )


def _looked_through(path: Path, encoding: str, by_line: bool) -> TextForm:
    decoder = codecs.getincrementaldecoder(encoding)()
    characters = lines = line_length = 0
    blank, foreign = True, False
    with unpacked(path) as file:
        while True:
            block = file.read(BLOCK)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                preceding = error.object[: error.start].decode(encoding, "ignore")
                foreign = foreign or not preceding.isascii()
                raise _NotDecodedError(error, lines + preceding.count("\n") + 1, foreign) from error
            characters, lines = characters + len(text), lines + text.count("\n")
            blank, foreign = blank and not text.strip(), foreign or not text.isascii()
            if by_line:  # A line within one block is shorter than the limit.
                ends = [text.find("\n"), text.find("\r")]
                line_length += min((end for end in ends if end >= 0), default=len(text))
                LIMITS["line_characters"].check(line_length, path, f"near line {lines + 1}")
                if max(ends) >= 0:
                    line_length = len(text) - 1 - max(text.rfind("\n"), text.rfind("\r"))
            if not block:
                break
    if blank:
        raise unreadable(path, expected="a text file that is not blank", got="only white space")
    return TextForm(encoding, characters, lines)


def read_text(path: Path) -> str:
    """Return the content of a text file of a public data set, with line feeds as line ends."""
    return _with_line_feeds(_decoded(path))


def read_own_text(path: Path) -> str:
    """Return the content of a user's file, in any encoding that :func:`text_form` detects."""
    return _with_line_feeds(_own(path))


def _own(path: Path) -> str:
    form = text_form(path)
    needed = 2 * form.characters  # While line ends are replaced, there are two copies.
    check_memory(
        str(path), needed, path.name, "use a part of the file, or a machine with more memory"
    )
    with opened_text(path, form.encoding) as text:
        return text.read()


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 text file, split at line feeds, without blank ones at its end."""
    return _lines_of(_decoded(path))


def read_own_lines(path: Path) -> list[str]:
    """Return the lines of a user's file, in any encoding that :func:`text_form` detects."""
    return _lines_of(_own(path))


def _lines_of(text: str) -> list[str]:
    # splitlines() and universal newlines would also split at other characters.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while not lines[-1].strip():
        lines.pop()
    return lines


def read_numbers(path: Path, *, integers: bool = False) -> Tensor:
    """Read lines of numbers separated by commas, ``[lines, columns]``, as float64 or int64."""
    rows = []
    for line_number, line in enumerate(read_lines(path), 1):
        fields = line.split(",")
        row = [number(field) for field in fields]
        for column, value in enumerate(row, 1):
            if not math.isfinite(value) or (integers and not is_whole(value)):
                expected = "integers" if integers else "finite numbers up to 3.4e38"
                got = f"{fields[column - 1].strip()[:60]!r} in column {column}"
                expected = f"{expected} separated by commas"
                raise unreadable(path, expected=expected, got=got, line=line_number)
        rows.append(row)
        if len(row) != len(rows[0]):
            expected = f"{counted(len(rows[0]), 'number')} in each line"
            got = counted(len(row), "number")
            raise unreadable(path, expected=expected, got=got, line=line_number)
    numbers = torch.tensor(rows, dtype=torch.double)
    return numbers.long() if integers else numbers


def read_json(text: str) -> Any:
    """Parse JSON; raise ValueError also for lists that are nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("too many nested lists") from error


def number(text: str) -> float:
    """Convert text to a number; NaN if the text is not a number in the range of float32."""
    try:
        value = math.nan if "_" in text else float(text)  # Only Python reads 1_000 as a number.
    except ValueError:
        return math.nan
    return value if abs(value) <= LARGEST else math.nan


def is_whole(value: float) -> bool:
    """Return whether a number is an integer, and small enough to be exact."""
    return value.is_integer() and abs(value) < LARGEST_WHOLE


def raw_texts(data: str, sources: dict[str, str]) -> dict[str, str]:
    """Return the text of each file of a public data set, by file name; see :func:`find_files`."""
    folder = find_files(data, sources)
    return {name: read_text(folder / name) for name in sources}


def check_line_count(
    path: Path, lines: Sequence[object] | Tensor, num_lines: int, what: str
) -> None:
    """Raise ArgumentError if a file does not have one line for each of the items ``what``."""
    if len(lines) != num_lines:
        raise unreadable(
            path,
            expected=f"one line for each of the {num_lines} {what}",
            got=counted(len(lines), "line"),
            remedy="use files of the same data set",
        )


def _decoded(path: Path) -> str:
    content = read_bytes(path)
    encoding = _by_first_bytes(path, content[:64])
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        encoding_name = encoding.removesuffix("-sig").upper()
        got = f"{error.reason} ({error.object[error.start]:#04x})"
        raise unreadable(
            path,
            expected=f"text in {encoding_name}",
            got=got,
            remedy="save the file again as UTF-8",
            line=line,
        ) from error
    if not text.strip():
        raise unreadable(path, expected="a text file that is not blank", got="only white space")
    return text
