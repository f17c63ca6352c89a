"""Lists of edges and of interactions in text files, whose ids are numbers or names of any kind.

Ids may have gaps, be as large as they like, or be texts: nodes are numbered from 0 without gaps, in
the order of their ids, and the ids are kept (:data:`Ids`) so that a prediction can name them.

Fields are separated by tabs, semicolons, commas or spaces, whichever the first line has, and a
field may be in quotes. Empty lines and lines that begin with ``#``, ``%`` or ``//`` do not count. A
name that ends in ``.gz`` is unpacked.

Where most ids of a file are whole numbers all have to be, so that a damaged line is found and not
taken for a new node; ``names=True`` takes any. A first line that names the columns is recognised
(``header=None``): it has words alone above whole numbers, or words such as ``source,target``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise.data.files import unreadable
from edgewise.data.reading import read_lines
from edgewise.errors import ArgumentError

Ids = dict[str, int]
"""The number of each id, in the order of the numbers: ``list(ids)[number]`` is the id again."""

COMMENTS = ("#", "%", "//")
DELIMITERS = ("\t", ";", ",")
WORD = re.compile(r"[A-Za-z_][\w .:-]*")
COLUMNS = re.compile(r"(source|target|src|dst|from|to|head|tail|u|v|(node|user|item|id)_?(id|\d)?)")
DIGITS = 20  # of a whole number of 64 bits


class Edges(NamedTuple):
    """Pairs ``[2, E]`` of numbered nodes, in the order of the file, and the ids of the nodes."""

    pairs: Tensor
    ids: Ids


class Interactions(NamedTuple):
    """Users and items ``[2, E]`` of each file, and their ids, which all files share."""

    pairs: list[Tensor]
    user_ids: Ids
    item_ids: Ids


class Line(NamedTuple):
    """A line of a file that counts: its number, from 1, and its fields."""

    number: int
    fields: list[str]


class File(NamedTuple):
    """The lines of a file that count."""

    path: Path
    lines: list[Line]


def read_edges(path: str | Path, *, header: bool | None = None, names: bool = False) -> Edges:
    """The edges of a file with ``source target`` in each line.

    Args:
        path: the file.
        header: whether the first line names the columns; ``None`` recognises it.
        names: ids are names, even where they look like numbers.

    Raises:
        ArgumentError: a line that is not two ids; gives its number and what it says. Or there is no
            edge.
        MissingDataError: there is no such file.

    """
    path = Path(path)
    lines = _lines(path, header)
    for line in lines:
        if len(line.fields) != 2:
            raise _bad_line(path, line, "two ids, source and target,")
    if not lines:
        raise _empty(path)
    ids = _numbered([File(path, lines)], slice(None), names)
    numbers = [ids[field] for line in lines for field in line.fields]
    return Edges(torch.tensor(numbers).view(-1, 2).t().contiguous(), ids)


def read_interactions(
    *paths: str | Path, header: bool | None = None, names: bool = False
) -> Interactions:
    """Users and their items, from lines ``user item item ...`` (LightGCN's format) or pairs.

    A user without an item is allowed, and an item that a user has twice is there twice.

    Args:
        paths: files about the same users and items.
        header: see :func:`read_edges`; there are two columns under it.
        names: see :func:`read_edges`.

    Raises:
        ArgumentError: an id that is none, or a file without items; names the line.
        MissingDataError: there is no such file.

    """
    files = [File(Path(path), _lines(Path(path), header)) for path in paths]
    for path, lines in files:
        if all(len(line.fields) < 2 for line in lines):
            raise _empty(path)
    users = _numbered(files, slice(0, 1), names)
    items = _numbered(files, slice(1, None), names)
    return Interactions([_memberships(lines, users, items) for _, lines in files], users, items)


def read_memberships(path: str | Path) -> Edges:
    """Groups and their members, ``[2, E]``, from lines that list the members of one group each.

    A hypergraph: group g is line g, counted from 0 and without comments and empty lines. The ids
    are those of the members.

    Raises:
        ArgumentError: an id that is none, or no member; names the line.
        MissingDataError: there is no such file.

    """
    lines = _lines(Path(path), header=False)
    if not lines:
        raise _empty(Path(path))
    ids = _numbered([File(Path(path), lines)], slice(None), names=False)
    groups = {str(group): group for group in range(len(lines))}
    named = [Line(line.number, [str(g), *line.fields]) for g, line in enumerate(lines)]
    return Edges(_memberships(named, groups, ids), ids)


def _memberships(lines: list[Line], groups: Ids, members: Ids) -> Tensor:
    """Pairs ``[2, E]`` of the first field of each line and each of the others."""
    group = torch.tensor([groups[line.fields[0]] for line in lines])
    count = torch.tensor([len(line.fields) - 1 for line in lines])
    member = [members[field] for line in lines for field in line.fields[1:]]
    return torch.stack([group.repeat_interleave(count), torch.tensor(member)])


def _numbered(files: Sequence[File], part: slice, names: bool) -> Ids:
    """The number of each id in this part of the lines: by size, or as names by the alphabet."""
    found = {field for _, lines in files for line in lines for field in line.fields[part]}
    whole = sum(map(_is_whole, found))
    if names or 2 * whole <= len(found):
        return {name: number for number, name in enumerate(sorted(found))}
    if whole < len(found):
        for path, lines in files:
            for line in lines:
                if not all(map(_is_whole, line.fields[part])):
                    raise _bad_line(path, line, "whole numbers from 0, as most ids are,")
    return {name: number for number, name in enumerate(sorted(found, key=int))}


def _is_whole(field: str) -> bool:
    # What begins with 0, such as a postal code, is a name.
    digits = field.isascii() and field.isdecimal() and len(field) <= DIGITS
    return digits and (field[0] != "0" or field == "0")


def _lines(path: Path, header: bool | None) -> list[Line]:
    """The lines of a file that count, without its header."""
    texts = [(number, text.strip()) for number, text in enumerate(read_lines(path), 1)]
    texts = [(number, text) for number, text in texts if text and not text.startswith(COMMENTS)]
    if not texts:
        return []
    delimiter = next((mark for mark in DELIMITERS if mark in texts[0][1]), None)
    lines = [Line(number, _fields(path, number, text, delimiter)) for number, text in texts]
    if header or (header is None and _names_columns(lines[0], lines[1:])):
        for line in lines:
            if len(line.fields) != 2:
                raise _bad_line(path, line, "two columns, as under a header,")
        return lines[1:]
    return lines


def _fields(path: Path, number: int, text: str, delimiter: str | None) -> list[str]:
    try:
        if delimiter and '"' in text:
            fields = next(csv.reader([text], delimiter=delimiter, strict=True))
        else:
            fields = text.split(delimiter)
    except csv.Error:
        fields = [""]
    fields = [field.strip() for field in fields]
    if not all(fields):
        raise _bad_line(path, Line(number, [text]), "an id in each field")
    return fields


def _names_columns(first: Line, others: list[Line]) -> bool:
    if not all(map(WORD.fullmatch, first.fields)):
        return False
    if all(COLUMNS.fullmatch(field.lower()) for field in first.fields):
        return True
    fields = [field for line in others for field in line.fields]
    return 2 * sum(map(_is_whole, fields)) > len(fields)


def _bad_line(path: Path, line: Line, expected: str) -> ArgumentError:
    return unreadable(
        path,
        expected=f"{expected} in each line",
        got=repr(" ".join(line.fields)[:60]),
        line=line.number,
        remedy="correct this line, mark comments with #, or, where all ids are names, say so with "
        "names=True",
    )


def _empty(path: Path) -> ArgumentError:
    remedy = "name a text file with one edge a line"
    return unreadable(path, expected="at least one edge", got="none", remedy=remedy)
