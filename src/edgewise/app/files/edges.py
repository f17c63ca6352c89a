"""Edges and interactions read from a text file, a table or a data frame.

Ids are numbers, with or without gaps, or texts. Nodes are numbered from 0 without gaps in the order
of their ids, and the ids are kept (:data:`Ids`) so that a prediction can name them.

The delimiter of a text file is the first of these that occurs in the first line: a tab, ``::``,
another delimiter of :mod:`edgewise.app.files.read_table`, or spaces. A field may be in quotes.
Empty lines and lines that begin with ``#``, ``%`` or ``//`` are ignored. pandas is not used for
these files, because it reads neither lines of different lengths nor several kinds of comments.

If most ids of a file are whole numbers, all ids must be whole numbers, so that a damaged line
raises an error instead of adding a node; ``names=True`` accepts any id. With ``header=None``, the
first line is taken as a header if it has words above numbers, or usual names such as
``source,target``. If a table has more columns than needed, :class:`Column` selects them by name.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError, counted, unknown_name
from edgewise._utils.limits import check_memory
from edgewise.app.files.files import unreadable
from edgewise.app.files.frames import FrameSource, open_source
from edgewise.app.files.read_table import DELIMITERS, SEPARATOR_LINE, is_text, read_table
from edgewise.app.files.reading import number, opened_text, text_form

Ids = dict[str, int]
"""Dict from id to node index, sorted by id, so that ``list(ids)[index]`` is the id."""

COMMENTS = ("#", "%", "//")
MARKS = ("\t", "::", *(mark for mark in DELIMITERS if mark != "\t"))
WORD = re.compile(r"[^\W\d][\w .:/()-]*")
NUMERIC = re.compile(r"[-+]?\.?\d[-+\d.,:/TZe ]*")  # Numbers, dates and times.
DIGITS = 20  # Maximum number of digits of a 64-bit integer.
PER_LINE, LETTERS = 400, 3  # Bytes of memory per line and per character.


class Column(NamedTuple):
    """Kind of column, such as users, with the names by which it is found in a table.

    Attributes:
        argument: the field that names the column, such as ``data.user``.
        usual: unambiguous names, in lower case without spaces and underscores.
        name: name of the column, or number from 1 if there is no header; "" looks for a usual name.
    """

    argument: str
    usual: tuple[str, ...]
    name: str = ""

    def named(self, name: str) -> Column:
        """Return a copy with the given column name; "" looks for a usual name."""
        return self._replace(name=name)


def _column(argument: str, usual: str) -> Column:
    return Column(argument, tuple(usual.split()))


SOURCE = _column(
    "data.source",
    "source src from citing u sourceid fromid node1 id1 user1 fromnodeid nodeid1 userid1 person1",
)
DESTINATION = _column(
    "data.destination",
    "destination dst target to cited v destinationid toid targetid node2 id2 user2 tonodeid "
    "nodeid2 userid2 person2 dest friend",
)
USER = _column(
    "data.user",
    "user userid username customer customerid member memberid reader visitorid reviewerid person "
    "personid",
)
ITEM = _column(
    "data.item",
    "item itemid movie movieid film filmid book bookid isbn product productid asin song songid "
    "track trackid article articleid artist artistid business businessid place placeid sku",
)
TIME = _column("data.time", "time timestamp date datetime when unixreviewtime createdat")
RATING = _column("data.rating", "rating ratings score stars bookrating")
ROLES = SOURCE, DESTINATION, USER, ITEM, TIME, RATING
USUAL = frozenset(name for role in ROLES for name in (*role.usual, "id", "node", "nodeid"))
"""Usual column names. A first line with two of these names is a header, not an edge."""


class EdgeTable(NamedTuple):
    """Edges ``[2, E]`` as node indices, in the order of the file, and the ids of the nodes.

    ``column`` is the name of the column of source nodes.
    """

    pairs: Tensor
    ids: Ids
    column: str = "source"


class Interactions(NamedTuple):
    """User-item pairs ``[2, E]`` of each file, as indices; the files share the ids.

    ``rating`` is the name of the column of ratings in the first file, "" if there is none.
    ``numbers`` has a dict for each file, from the argument of each further column that exists (such
    as ``data.time``) to its values, float64 ``[E]``. ``columns`` has the names of the user and item
    columns of the first file.
    """

    pairs: list[Tensor]
    user_ids: Ids
    item_ids: Ids
    numbers: list[dict[str, Tensor]]
    columns: tuple[str, str] = ("user", "item")
    rating: str = ""


class Line(NamedTuple):
    """Line number, from 1, and fields of a line that is neither empty nor a comment."""

    number: int
    fields: list[str]


class File(NamedTuple):
    """Lines of a file without comments, and the names of its columns if it has a header."""

    path: Path | FrameSource
    lines: list[Line]
    names: list[str] | None = None


def read_edges(
    path: str | Path,
    *,
    header: bool | None = None,
    names: bool = False,
    source: str = "",
    destination: str = "",
) -> EdgeTable:
    """Read edges from lines ``source target``, or from two columns of a table.

    Args:
        path: the file, or a data frame.
        header: whether the first line names the columns; ``None`` detects it.
        names: whether ids are names, even if they look like numbers.
        source: column of the source nodes; "" finds it by its usual names, or takes the first of
            two columns.
        destination: column of the destination nodes; "" finds it by its usual names, or takes the
            other of two columns.

    Raises:
        ArgumentError: a line does not have two ids (the error gives its number and text), there is
            no edge, or the columns cannot be determined.
        MissingDataError: there is no such file.
    """
    columns = SOURCE.named(source), DESTINATION.named(destination)
    file = _lines(open_source(path), header, columns)
    pairs = _two_columns(file, columns, "two ids, source and target")
    if not pairs.lines:
        raise _empty(pairs.path)
    ids = _numbered([pairs], slice(None), names)
    numbers = [ids[field] for line in pairs.lines for field in line.fields]
    column = pairs.names[0] if pairs.names else "source"
    return EdgeTable(torch.tensor(numbers).view(-1, 2).t().contiguous(), ids, column)


def read_interactions(
    *paths: str | Path,
    header: bool | None = None,
    names: bool = False,
    user: str = "",
    item: str = "",
    further: Sequence[Column] = (),
) -> Interactions:
    """Read interactions from lines ``user item item ...`` (LightGCN's format) or from a table.

    A user may have no item. Repeated interactions are kept.

    Args:
        paths: files or data frames, which share the ids of users and items.
        header: see :func:`read_edges`. Files without a header have LightGCN's format, unless
            columns are given.
        names: see :func:`read_edges`.
        user: column of the users; "" finds it by its usual names, or takes the first of two
            columns.
        item: column of the items; "" finds it by its usual names, or takes the other of two.
        further: other columns of numbers or dates; a column without a name may be missing.

    Raises:
        ArgumentError: an id is missing or a file has no items (the error names the line), or the
            columns cannot be determined.
        MissingDataError: there is no such file.
    """
    columns = USER.named(user), ITEM.named(item)
    files: list[File] = []
    numbers, rating = [], ""
    for path in paths:
        file = _lines(open_source(path), header, (*columns, *further))
        is_table = file.names is not None or any(c.name for c in (*columns, *further))
        if not is_table:
            _refuse_ratings(file)
        if not files and file.names:
            position = find_column(file, RATING)
            rating = file.names[position] if position is not None else ""
        files.append(_two_columns(file, columns, "a user and an item") if is_table else file)
        numbers.append(_numbers(file, further) if is_table else {})
        if all(len(line.fields) < 2 for line in file.lines):
            raise _empty(file.path)
        for line in files[-1].lines:
            if not all(map(str.strip, line.fields)):
                raise _bad_line(file.path, line, "an id in every field")
    users = _numbered(files, slice(0, 1), names)
    items = _numbered(files, slice(1, None), names)
    pairs = [_memberships(file.lines, users, items) for file in files]
    user_column, item_column = (files[0].names or ["user", "item"])[:2]
    return Interactions(pairs, users, items, numbers, (user_column, item_column), rating)


def _memberships(lines: list[Line], groups: Ids, members: Ids) -> Tensor:
    """Return index pairs ``[2, E]`` of the first field of each line and each of its other fields.

    Args:
        lines: lines such as ``user item item``.
        groups: index of each id that may be a first field.
        members: index of each id that may be another field.
    """
    group = torch.tensor([groups[line.fields[0]] for line in lines])
    count = torch.tensor([len(line.fields) - 1 for line in lines])
    member = [members[field] for line in lines for field in line.fields[1:]]
    return torch.stack([group.repeat_interleave(count), torch.tensor(member)])


def _numbered(files: Sequence[File], part: slice, names: bool) -> Ids:
    """Sort the ids of all files, and return the index of each id.

    Args:
        files: lines with ids.
        part: positions of the fields of a line that have the ids.
        names: whether ids are names, even if they look like numbers.
    """
    found = {field for file in files for line in file.lines for field in line.fields[part]}
    whole = sum(map(_is_whole, found))
    if names or 2 * whole <= len(found):
        return {name: number for number, name in enumerate(sorted(found))}
    if whole < len(found):
        for file in files:
            for line in file.lines:
                if not all(map(_is_whole, line.fields[part])):
                    raise _bad_line(file.path, line, "integers from 0, like most ids")
    return {name: number for number, name in enumerate(sorted(found, key=int))}


def _is_whole(field: str) -> bool:
    # An id with a leading 0, such as a postal code, is a name.
    digits = field.isascii() and field.isdecimal() and len(field) <= DIGITS
    return digits and (field[0] != "0" or field == "0")


def _lines(path: Path | FrameSource, header: bool | None, columns: Sequence[Column] = ()) -> File:
    """Read the lines, without comments, and the column names if there is a header.

    Args:
        path: the file, or a data frame.
        header: whether the first line names the columns; ``None`` detects it.
        columns: columns that are needed; their names help to detect a header.
    """
    if not is_text(path):
        table = read_table(path)
        names = list(table.frame.columns)
        rows = zip(*table.columns.values(), strict=True)
        lines = [Line(number, list(row)) for number, row in zip(table.lines, rows, strict=True)]
        unnamed = header is False or all(name.isdecimal() for name in names)
        return File(path, lines, None if unnamed else names)
    assert isinstance(path, Path)
    form = text_form(path, by_line=True)
    needed = LETTERS * form.characters + PER_LINE * form.lines
    check_memory(
        "data.path", needed, path.name, "use a part of the lines, or a machine with more memory"
    )
    with opened_text(path, form.encoding) as file:
        stripped = ((number, text.strip()) for number, text in enumerate(file, 1))
        texts = [line for line in stripped if line[1] and not line[1].startswith(COMMENTS)]
    separator_line = SEPARATOR_LINE.fullmatch(texts[0][1]) if texts else None
    texts = texts[1:] if separator_line else texts
    if not texts:
        return File(path, [])
    delimiter = next((mark for mark in MARKS if mark in texts[0][1]), None)
    if separator_line:
        delimiter = separator_line[1] or "\t"
    lines = [Line(number, _fields(path, number, text, delimiter)) for number, text in texts]
    if not (header or (header is None and _names_columns(lines[0], lines[1:], columns))):
        if header is None:
            _refuse_doubt(path, lines, texts[0][1])
        return File(path, lines)
    wanted = len(lines[0].fields)
    for line in lines:
        if len(line.fields) != wanted:
            expected = f"{counted(wanted, 'column')}, as in the header"
            raise _bad_line(path, line, expected)
    return File(path, lines[1:], lines[0].fields)


def _fields(path: Path, number: int, text: str, delimiter: str | None) -> list[str]:
    try:
        if delimiter and len(delimiter) == 1 and '"' in text:
            fields = next(csv.reader([text], delimiter=delimiter, strict=True))
        else:
            fields = text.split(delimiter)
    except csv.Error as error:
        raise _bad_line(
            path, Line(number, []), "an id in every field, and quotes only around a whole field"
        ) from error
    return [field.strip() for field in fields]


def _names_columns(first: Line, others: list[Line], columns: Sequence[Column]) -> bool:
    if not all(map(WORD.fullmatch, first.fields)):
        return False
    if any(column.name in first.fields for column in columns):
        return True
    if sum(_plain(field) in USUAL for field in first.fields) > 1:
        return True
    width = len(first.fields)
    if width > 2 and all(len(line.fields) == width for line in others):
        # A header: some column has a word in the first line and numbers or dates below.
        below = zip(*(line.fields for line in others), strict=True)
        return any(all(map(NUMERIC.fullmatch, column)) for column in below)
    fields = [field for line in others for field in line.fields]
    return 2 * sum(map(_is_whole, fields)) > len(fields)


def _refuse_doubt(path: Path, lines: list[Line], first: str) -> None:
    """Raise ArgumentError if it is unclear whether the first line is a header.

    This is the case if the words of the first line occur in no other line, while other ids are
    repeated.

    Args:
        path: the file, for the error.
        lines: lines of the file, split into fields.
        first: text of the first line, for the error.
    """
    if len(lines) < 2 or not all(map(WORD.fullmatch, lines[0].fields)):
        return
    count = Counter(field for line in lines for field in line.fields)
    alone = all(count[field] == 1 for field in lines[0].fields)
    repeated = sum(any(count[field] > 1 for field in line.fields) for line in lines[1:])
    if alone and repeated > 0.9 * (len(lines) - 1):
        raise ArgumentError(
            "data.header",
            expected=f"data.header to be set, because the first line of {path.name} may be a "
            "header or an edge",
            got=f"{first[:60]!r}; its words occur in no other line",
            remedy="set --data.header true if this line is a header, or --data.header false if it "
            "is an edge",
        )


def _plain(name: str) -> str:
    """Return a name in lower case, without spaces and punctuation."""
    return re.sub(r"[\s_.-]", "", name.lower())


def find_column(file: File, column: Column) -> int | None:
    """Return the position of a column, from 0, or ``None`` if it cannot be determined.

    Raises:
        ArgumentError: ``column`` is a name that the table does not have.
    """
    if not file.names:
        return _numbered_column(file, column) if column.name else None
    if column.name:
        if column.name not in file.names:
            unknown = unknown_name(column.argument, column.name, file.names)
            raise ArgumentError(
                column.argument,
                expected=f"a column of {file.path.name}: {unknown.expected}",
                got=unknown.got,
                remedy=unknown.remedy,
            )
        return file.names.index(column.name)
    plain = [_plain(name) for name in file.names]
    found = [plain.index(name) for name in column.usual if name in plain]
    return found[0] if len(found) == 1 else None


def _numbered_column(file: File, column: Column) -> int:
    width = len(file.lines[0].fields) if file.lines else 0
    if not column.name.isdecimal() or not 1 <= int(column.name) <= width:
        raise ArgumentError(
            column.argument,
            expected=f"the number of a column from 1 to {width}, because {file.path.name} has no "
            "header",
            got=repr(column.name),
            remedy="give the number of the column, or set --data.header true if the first line "
            "names the columns",
        )
    return int(column.name) - 1


def _two_columns(file: File, columns: tuple[Column, Column], expected: str) -> File:
    """Return the file reduced to two columns, such as those of the users and the items.

    Args:
        file: lines with two or more fields.
        columns: the two columns; if the file has only two, they need no name.
        expected: description of a valid line, for the error.
    """
    if not file.lines:
        return file
    places = [find_column(file, column) for column in columns]
    width = len(file.names or file.lines[0].fields)
    if width == 2 and None in places:
        given = next((place for place in places if place is not None), None)
        places = [0, 1] if given is None else [p if p is not None else 1 - given for p in places]
    if None in places or places[0] == places[1]:
        if file.names is None:
            raise _bad_line(file.path, file.lines[0], expected)
        one, other = (f"--{column.argument}" for column in columns)
        raise ArgumentError(
            ", ".join(column.argument for column in columns),
            expected=f"exactly two columns in {file.path.name}, or the names of two columns",
            got=f"the columns {', '.join(file.names)}",
            remedy=f"name two different columns with {one} and {other}",
        )
    first, second = places
    lines = []
    for line in file.lines:
        if len(line.fields) != width:
            raise _bad_line(file.path, line, expected)
        pair = [line.fields[first], line.fields[second]]  # type: ignore[index]
        if not all(map(str.strip, pair)):
            raise _bad_line(file.path, line, "an id in every field")
        lines.append(Line(line.number, pair))
    names = [file.names[first], file.names[second]] if file.names else None  # type: ignore[index]
    return File(file.path, lines, names)


def _numbers(file: File, columns: Sequence[Column]) -> dict[str, Tensor]:
    """Return the values ``[E]`` of those columns that the file has, by ``Column.argument``.

    Values are numbers, or dates as seconds since 1970.
    """
    found = {}
    for column in columns:
        place = find_column(file, column)
        if place is None:
            continue
        values = [moment(line.fields[place]) for line in file.lines]
        for line, value in zip(file.lines, values, strict=True):
            if value is None:
                raise _bad_line(file.path, line, f"a number or a date for {column.argument}")
        found[column.argument] = torch.tensor(values, dtype=torch.double)
    return found


def moment(text: str) -> float | None:
    """Parse a number, or a date of ISO 8601 as seconds since 1970; ``None`` for other text."""
    value = number(text)
    if not math.isnan(value):
        return value
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _refuse_ratings(file: File) -> None:
    """Raise ArgumentError for a table of ratings without a header.

    The rows of such a table look like lines ``user item item``, but users are repeated.
    """
    widths = {len(line.fields) for line in file.lines}
    users = {line.fields[0] for line in file.lines}
    if len(widths) == 1 and max(widths) > 2 and 2 * len(users) < len(file.lines):
        width = max(widths)
        raise ArgumentError(
            "data.user, data.item",
            expected="lines of the form `user item item ...`, or the column numbers of users and "
            "items",
            got=f"{width} columns without names, with repeated users, in {file.path.name}",
            remedy="give the column numbers, such as --data.user 1 --data.item 2 --data.time 4",
        )


def _bad_line(path: Path | FrameSource, line: Line, expected: str) -> ArgumentError:
    text = ", ".join(line.fields)
    if isinstance(path, Path) and is_text(path):
        with opened_text(path, text_form(path).encoding) as file:
            text = next(islice(file, line.number - 1, None)).strip()
    return unreadable(
        path,
        expected=f"lines with {expected}",
        got=repr(text[:60]),
        line=line.number,
        remedy="correct this line, mark comments with #, or, if ids are names, set "
        "names=True (--data.names true)",
    )


def _empty(path: Path | FrameSource) -> ArgumentError:
    remedy = "name a text file with one edge or interaction per line"
    return unreadable(path, expected="at least one edge", got="none", remedy=remedy)
