"""Lists of edges and of interactions in text files, plain or gzip; a bad line is named."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from edgewise.errors import ArgumentError, MissingDataError

COMMENTS = ("#", "%", "//")
SEPARATOR = re.compile(rb"[\s,;]+")


def read_edges(path: str | Path, *, header: bool = False) -> Tensor:
    """The pairs of a file with one edge a line, ``[2, E]``, in the file's order.

    Numbers are separated by spaces, tabs, commas or semicolons. Empty lines and lines that begin
    with ``#``, ``%`` or ``//`` do not count. A name that ends in ``.gz`` is unpacked.

    Args:
        path: the file.
        header: the first line names the columns, and is skipped.

    Raises:
        ArgumentError: a line that is not two whole numbers from 0; gives its number and what it
            says. Or there is no edge.
        MissingDataError: there is no such file.

    """
    numbers: list[int] = []
    for place, fields in _lines(Path(path), header):
        if len(fields) != 2:
            raise _bad_line(path, place, fields, "two numbers, source and target")
        numbers += _whole(path, place, fields)
    if not numbers:
        raise _empty(path)
    return torch.tensor(numbers).view(-1, 2).t().contiguous()


def read_interactions(path: str | Path) -> Tensor:
    """Users and their items, ``[2, E]``, from lines ``user item item ...`` (LightGCN's format).

    A user without an item is allowed, and an item that a user has twice is kept twice.

    Raises:
        ArgumentError: a line with anything but whole numbers from 0; gives its number.
        MissingDataError: there is no such file.

    """
    users: list[int] = []
    items: list[int] = []
    for place, fields in _lines(Path(path), False):
        user, *own = _whole(path, place, fields)
        users += [user] * len(own)
        items += own
    if not items:
        raise _empty(path)
    return torch.tensor([users, items])


def read_memberships(path: str | Path) -> Tensor:
    """Groups and their members, ``[2, E]``, from lines that list the members of one group each.

    A hypergraph: group g is line g, counted from 0 and without comments and empty lines.

    Raises:
        ArgumentError: a line with anything but whole numbers from 0; gives its number.
        MissingDataError: there is no such file.

    """
    groups: list[int] = []
    members: list[int] = []
    for group, (place, fields) in enumerate(_lines(Path(path), False)):
        own = _whole(path, place, fields)
        groups += [group] * len(own)
        members += own
    if not members:
        raise _empty(path)
    return torch.tensor([groups, members])


def _lines(path: Path, header: bool) -> Iterator[tuple[int, list[bytes]]]:
    """The number of each line that counts, from 1, and its fields."""
    if not path.is_file():
        raise MissingDataError(f"{path}: no such file. Remedy: name a text file of edges.")
    comments = tuple(mark.encode() for mark in COMMENTS)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for place, line in enumerate(file, 1):
                text = line.strip()
                if text and not text.startswith(comments):
                    if header:
                        header = False
                        continue
                    yield place, SEPARATOR.split(text)
    except (gzip.BadGzipFile, EOFError) as error:
        raise ArgumentError(
            "path",
            expected=f"{path.name} to be a whole gzip file",
            got=str(error),
            remedy="copy or download it again",
        ) from error


def _whole(path: str | Path, place: int, fields: list[bytes]) -> list[int]:
    try:
        numbers = [int(field) for field in fields]
    except ValueError:
        raise _bad_line(path, place, fields, "whole numbers") from None
    if min(numbers) < 0:
        raise _bad_line(path, place, fields, "numbers from 0")
    return numbers


def _bad_line(path: str | Path, place: int, fields: list[bytes], expected: str) -> ArgumentError:
    said = b" ".join(fields).decode("utf-8", "replace")
    header = ", or pass header=True if it names the columns" if place == 1 else ""
    return ArgumentError(
        "path",
        expected=f"{expected} in each line of {Path(path).name}",
        got=f"{said[:60]!r} in line {place}",
        remedy=f"number the nodes from 0, and mark comments with #{header}",
    )


def _empty(path: str | Path) -> ArgumentError:
    return ArgumentError(
        "path",
        expected=f"at least one edge in {Path(path).name}",
        got="none",
        remedy="name a text file with one edge a line",
    )
