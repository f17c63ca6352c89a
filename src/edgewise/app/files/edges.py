"""Edges and interactions read from a text file, a table or a data frame.

Ids are numbers, with or without gaps, or texts. Nodes are numbered from 0 without gaps in the order
of their ids, and the ids are kept (:data:`Ids`) so that a prediction can name them.

The delimiter of a text file is the first of these that occurs in the first line: a tab, ``::``,
another delimiter of :mod:`edgewise.app.files.read_table`, or spaces. A field may be in quotes.
Empty lines and lines that begin with ``#``, ``%`` or ``//`` are ignored. pandas reads all fields as
one column, because lines may have different numbers of fields.

If most ids of a file are whole numbers, all ids must be whole numbers, so that a damaged line
raises an error instead of adding a node; ``names=True`` accepts any id. With ``header=None``, the
first line is taken as a header if it has words above numbers, or usual names such as
``source,target``. If a table has more columns than needed, :class:`Column` selects them by name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgewise._utils.errors import ArgumentError, counted, unknown_name
from edgewise._utils.limits import check_memory
from edgewise.app.files.dates import moments
from edgewise.app.files.files import unreadable
from edgewise.app.files.frames import FrameSource, open_source, pandas_for
from edgewise.app.files.read_table import DELIMITERS, SEPARATOR_LINE, is_text, read_table
from edgewise.app.files.reading import opened_text, text_form
from edgewise.app.files.triples import Triple, is_triples, read_triples

Ids = dict[str, int]
"""Dict from id to node index, sorted by id, so that ``list(ids)[index]`` is the id."""

COMMENTS = ("#", "%", "//")
MARKS = ("\t", "::", *(mark for mark in DELIMITERS if mark != "\t"))
WORD = re.compile(r"[^\W\d][\w .:/()-]*")
NUMERIC = re.compile(r"[-+]?\.?\d[-+\d.,:/TZe ]*")  # Numbers, dates and times.
WHOLE = re.compile("0|[1-9][0-9]{0,19}")  # Up to the 20 digits of a 64-bit integer.
SPACES = ("  ", *"\t\v\f\x1c\x1d\x1e\x1f")  # White space other than one blank between two fields.
PER_LINE, PER_CHARACTER = 400, 3  # Bytes of memory per line and per character.
LINE_FEED = ord("\n")
# Bytes at the ends of a line that may be white space or begin a comment, or are not ASCII.
UNUSUAL = np.array([byte > 127 or chr(byte).isspace() or chr(byte) in "#%/" for byte in range(256)])
BLOCK = 2**17  # Number of fields that are hashed at once, to use little memory.
LONGEST_HASHED = 64  # Bytes of a field; longer fields are compared as texts.
MASKS = np.array([256**size - 1 for size in range(9)], dtype="<u8")  # First bytes of a word of 8.
FACTOR = np.uint64(0x9E3779B97F4A7C15)  # Odd, of the golden ratio, as is usual for hashes.


class Column(NamedTuple):
    """Kind of column, such as users: the field that names it, its usual names (lower case, without
    spaces and underscores), and the name or number that the user gave, "" for none.
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
RELATION = _column("data.relation", "relation predicate property edgetype")
HEAD = _column("data.head", "head subject source from headid subjectid sourceid")
TAIL = _column("data.tail", "tail object target destination to tailid objectid targetid")
THREE = "three fields: head, relation and tail"
ROLES = SOURCE, DESTINATION, USER, ITEM, TIME, RATING, HEAD, RELATION, TAIL
USUAL = frozenset(name for role in ROLES for name in (*role.usual, "id", "node", "nodeid"))
"""Usual column names. A first line with two of these names is a header, not an edge."""

Indices = NDArray[np.int64]


class EdgeTable(NamedTuple):
    """Edges ``[2, E]`` as node indices, node ids, and the name of the column of source nodes.
    ``edge_type`` ``[E]`` holds the relation of each edge, an index of ``relations``, if any.
    """

    pairs: Tensor
    ids: Ids
    column: str = "source"
    edge_type: Tensor | None = None
    relations: tuple[str, ...] = ()


class Interactions(NamedTuple):
    """User-item pairs ``[2, E]`` of each file, with shared ids, and ``numbers`` with the values
    ``[E]`` of further columns by their argument, such as ``data.time``.
    """

    pairs: list[Tensor]
    user_ids: Ids
    item_ids: Ids
    numbers: list[dict[str, Tensor]]
    columns: tuple[str, str] = ("user", "item")
    rating: str = ""


class Fields(NamedTuple):
    """Fields of the lines of a file, without comments and header: ``texts[codes]`` are the fields
    line by line, ``widths`` their number in each line. ``names`` is the header; ``line_numbers`` is
    only for tables; ``skipped`` lines come before the first.
    """

    path: Path | FrameSource
    codes: Indices = np.empty(0, dtype=np.int64)
    texts: NDArray[np.object_] = np.empty(0, dtype=object)
    widths: Indices = np.empty(0, dtype=np.int64)
    names: list[str] | None = None
    line_numbers: Sequence[int] = ()
    skipped: int = 0

    @property
    def starts(self) -> Indices:
        """Position in ``codes`` of the first field of each line."""
        return self.widths.cumsum() - self.widths

    @property
    def rows(self) -> Indices:
        """Line of each field, from 0."""
        return np.arange(len(self.widths)).repeat(self.widths)

    def per_field(self, function: Callable[[str], object]) -> NDArray[np.bool_]:
        """Return whether a function, called once for each distinct text, is true of each field."""
        are_true = map(bool, map(function, self.texts))
        return np.fromiter(are_true, dtype=bool, count=len(self.texts))[self.codes]

    def refuse(
        self,
        rows: Indices,
        expected: str,
        remedy: str = "correct this line, mark comments with #, or, if ids are names, set "
        "names=True (--data.names true)",
    ) -> None:
        """Raise ArgumentError for the first of these lines, if there is one."""
        for row in rows[:1].tolist():
            if isinstance(self.path, Path) and is_text(self.path):
                lines = _stripped(_text(self.path, text_form(self.path).encoding))
                number, text = [line for line in enumerate(lines, 1) if line[1]][self.skipped + row]
            else:
                number = self.line_numbers[row]
                text = ", ".join(self.texts[self.codes[self.rows == row]])
            raise unreadable(
                self.path,
                expected=f"lines with {expected}",
                got=repr(text[:60]),
                line=number,
                remedy=remedy,
            )


def read_edges(
    path: str | Path,
    *,
    header: bool | None = None,
    names: bool = False,
    source: str = "",
    destination: str = "",
    relation: str = "",
) -> EdgeTable:
    """Read edges from lines ``source target``, or from two columns of a table. An empty column name
    is found by usual names, or is one of the only two columns; ``names`` accepts ids that are not
    integers. ``relation`` is a column with the relation of each edge, which a file of N-Triples
    always has.
    """
    opened = open_source(path)
    if isinstance(opened, Path) and is_triples(opened):
        return edge_table(read_triples(opened), opened)
    columns = SOURCE.named(source), DESTINATION.named(destination)
    named = RELATION.named(relation)
    table = _fields(opened, header, (*columns, named) if relation else columns)
    expected = "two ids, source and target"
    return _edges(table, columns, named if relation else None, names, expected)


def read_relations(
    path: str | Path,
    *,
    header: bool | None = None,
    names: bool = False,
    head: str = "",
    relation: str = "",
    tail: str = "",
) -> EdgeTable:
    """Read triples from lines ``head relation tail``, from three columns of a table, or from
    N-Triples. An empty column name is found by usual names; without them, three columns are taken
    in this order.
    """
    opened = open_source(path)
    if isinstance(opened, Path) and is_triples(opened):
        return edge_table(read_triples(opened), opened)
    columns = HEAD.named(head), RELATION.named(relation), TAIL.named(tail)
    table = _fields(opened, header, columns)
    if not len(table.widths):
        raise _empty(table.path)
    positions = [_find_column(table, column) for column in columns]
    width = len(table.names) if table.names else int(table.widths[0])
    if width == len(columns) and positions == [None] * width:
        positions = list(range(width))
    if None in positions:
        if table.names is None and not any(column.name for column in columns):
            table.refuse(np.array([0]), THREE)
        missing = columns[positions.index(None)]
        raise ArgumentError(
            missing.argument,
            expected=f"the columns head, relation and tail in {table.path.name}",
            got=f"the columns {', '.join(table.names)}"
            if table.names
            else counted(width, "column"),
            remedy=f"name the column with --{missing.argument}",
        )
    head_column, relation_column, tail_column = (
        column.named(table.names[position] if table.names else str(position + 1))
        for column, position in zip(columns, cast("list[int]", positions), strict=True)
    )
    return _edges(table, (head_column, tail_column), relation_column, names, THREE)


def _edges(
    table: Fields,
    columns: tuple[Column, Column],
    relation: Column | None,
    names: bool,
    expected: str,
) -> EdgeTable:
    """Return the edges between two columns of a table, with the relations of a third."""
    fields = _two_columns(table, columns, expected)
    if not len(fields.widths):
        raise _empty(fields.path)
    ids, (nodes,) = _numbered([(fields, slice(None))], names)
    column = fields.names[0] if fields.names else "source"
    edges = EdgeTable(nodes.view(-1, 2).t().contiguous(), ids, column)
    if relation is None:
        return edges
    position = _find_column(table, relation)
    assert position is not None
    is_blank = ~table.per_field(str.strip)[table.starts + position]
    table.refuse(is_blank.nonzero()[0], f"a relation for {relation.argument}")
    return _with_relations(edges, table.texts[table.codes[table.starts + position]].tolist())


def edge_table(triples: Sequence[Triple], path: Path) -> EdgeTable:
    """Return triples (source, relation, target) as edges; ``path`` is their file."""
    if not triples:
        raise _empty(path)
    ends = [end for source, _, target in triples for end in (source, target)]
    ids = {name: number for number, name in enumerate(sorted(set(ends)))}
    pairs = torch.tensor([ids[end] for end in ends]).view(-1, 2).t().contiguous()
    return _with_relations(EdgeTable(pairs, ids), [relation for _, relation, _ in triples])


def _with_relations(edges: EdgeTable, names: list[str]) -> EdgeTable:
    relations = tuple(sorted(set(names)))
    number = {name: index for index, name in enumerate(relations)}
    edge_type = torch.tensor([number[name] for name in names], dtype=torch.long)
    return edges._replace(edge_type=edge_type, relations=relations)


def read_interactions(
    *paths: str | Path,
    header: bool | None = None,
    names: bool = False,
    user: str = "",
    item: str = "",
    further: Sequence[Column] = (),
) -> Interactions:
    """Read interactions from lines ``user item item ...`` (LightGCN's format) or from a table. A
    user may have no item, and repeated interactions are kept. ``further`` are other columns of
    numbers or dates, which may be missing if they have no name.
    """
    columns = USER.named(user), ITEM.named(item)
    files: list[Fields] = []
    numbers, rating = [], ""
    for path in paths:
        fields = _fields(open_source(path), header, (*columns, *further))
        is_table = fields.names is not None or any(c.name for c in (*columns, *further))
        if not is_table:
            _refuse_ratings(fields)
        if not files and fields.names:
            position = _find_column(fields, RATING)
            rating = fields.names[position] if position is not None else ""
        files.append(_two_columns(fields, columns, "a user and an item") if is_table else fields)
        numbers.append(_numbers(fields, further) if is_table else {})
        if (fields.widths < 2).all():
            raise _empty(fields.path)
        if not is_table:
            fields.refuse(fields.rows[~fields.per_field(str.strip)], "an id in every field")
    user_ids, users = _numbered([(fields, fields.starts) for fields in files], names)
    others = [np.delete(np.arange(len(fields.codes)), fields.starts) for fields in files]
    item_ids, items = _numbered(list(zip(files, others, strict=True)), names)
    pairs = [
        torch.stack([user.repeat_interleave(torch.from_numpy(fields.widths - 1)), item])
        for fields, user, item in zip(files, users, items, strict=True)
    ]
    user_column, item_column = (files[0].names or ["user", "item"])[:2]
    return Interactions(pairs, user_ids, item_ids, numbers, (user_column, item_column), rating)


def _numbered(
    columns: Sequence[tuple[Fields, Indices | slice]], names: bool
) -> tuple[Ids, list[Tensor]]:
    """Sort the ids at these positions of some files; return their indices by id, and in order."""
    pandas = pandas_for("reading edges")
    used = [fields.texts[np.bincount(fields.codes[at]).nonzero()[0]] for fields, at in columns]
    distinct = pandas.unique(np.concatenate(used))
    num_whole = sum(map(bool, map(WHOLE.fullmatch, distinct)))
    are_names = names or 2 * num_whole <= len(distinct)
    if not are_names and num_whole < len(distinct):
        for fields, at in columns:
            rows = fields.rows[at][~fields.per_field(WHOLE.fullmatch)[at]]
            fields.refuse(rows, "integers from 0, like most ids")
    order = sorted(distinct.tolist(), key=None if are_names else int)
    ids = dict(zip(order, range(len(order)), strict=True))
    nodes = [np.array([ids.get(text, -1) for text in fields.texts]) for fields, _ in columns]
    of_column = zip(nodes, columns, strict=True)
    return ids, [torch.from_numpy(index[fields.codes[at]]) for index, (fields, at) in of_column]


def _fields(path: Path | FrameSource, header: bool | None, columns: Sequence[Column]) -> Fields:
    """Read the fields of a file; the names of ``columns`` help to detect a header."""
    factorize = pandas_for("reading edges").factorize
    if not (isinstance(path, Path) and is_text(path)):
        table = read_table(path)
        names = list(table.frame.columns)
        codes, texts = factorize(table.frame.to_numpy(dtype=object).ravel())
        unnamed = header is False or all(name.isdecimal() for name in names)
        widths = np.full(len(table), len(names))
        return Fields(path, codes, texts, widths, None if unnamed else names, table.lines)
    first_line, column, widths, skipped = _one_column(path)
    if not len(widths):
        return Fields(path)
    width = int(widths[0])
    first = [field.strip() for field in column.split("\n", width)[:width]]
    codes, texts = _factorized(column)
    fields = Fields(path, codes, texts, widths, skipped=skipped)
    if header is False or not (header or all(map(WORD.fullmatch, first))):
        return fields
    below = Fields(path, codes[width:], texts, widths[1:], first, skipped=skipped + 1)
    if header or _names_columns(below, first, columns):
        expected = f"{counted(len(first), 'column')}, as in the header"
        below.refuse((below.widths != len(first)).nonzero()[0], expected)
        return below
    _refuse_doubt(fields, first_line)
    return fields


def _text(path: Path, encoding: str) -> str:
    with opened_text(path, encoding) as file:
        return file.read().replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")


def _stripped(text: str) -> list[str]:
    """Return all lines without white space at their ends, "" for a comment."""
    lines = map(str.strip, text.split("\n"))
    return ["" if line.startswith(COMMENTS) else line for line in lines]


def _clean(text: str) -> str:
    """Return the lines that are neither empty nor comments, without white space at their ends."""
    data = np.frombuffer(f"\n{text}\n".encode(), dtype=np.uint8)
    line_feeds = np.flatnonzero(data == LINE_FEED)
    if UNUSUAL[data[line_feeds[:-1] + 1]].any() or UNUSUAL[data[line_feeds[1:] - 1]].any():
        return "\n".join(filter(None, _stripped(text)))
    return text


def _one_column(path: Path) -> tuple[str, str, Indices, int]:
    """Return first line, all fields joined by line feeds, widths, and number of separator lines."""
    form = text_form(path, by_line=True)
    needed = PER_CHARACTER * form.characters + PER_LINE * form.lines
    remedy = "use a part of the lines, or a machine with more memory"
    check_memory("data.path", needed, path.name, remedy)
    text = _clean(_text(path, form.encoding))
    first_line, _, others = text.partition("\n")
    separator_line = SEPARATOR_LINE.fullmatch(first_line)
    skipped = 1 if separator_line else 0
    if separator_line:
        text = others
        first_line = text.partition("\n")[0]
    delimiter = next((mark for mark in MARKS if mark in first_line), None)
    if separator_line:
        delimiter = separator_line[1] or "\t"
    if not text:
        return "", "", np.empty(0, dtype=np.int64), skipped
    if delimiter is None:
        if not text.isascii() or any(space in text for space in SPACES):
            text = "\n".join(" ".join(line.split()) for line in text.split("\n"))
        delimiter = " "
    if delimiter not in DELIMITERS or '"' not in text:
        return first_line, text.replace(delimiter, "\n"), _widths(text, delimiter), skipped
    rows: list[list[str]] = []
    reader = csv.reader(text.split("\n"), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if reader.line_num > len(rows) + 1:
                raise csv.Error("a quoted field of several lines")
            rows.append(row)
    except csv.Error:
        expected = "an id in every field, and quotes only around a whole field"
        Fields(path, skipped=skipped).refuse(np.array([len(rows)]), expected)
    return first_line, "\n".join(chain.from_iterable(rows)), np.array(list(map(len, rows))), skipped


def _widths(text: str, delimiter: str) -> Indices:
    """Return the number of fields of each line."""
    if len(delimiter) > 1:
        return np.array([line.count(delimiter) + 1 for line in text.split("\n")])
    data = np.frombuffer(f"{text}\n".encode(), dtype=np.uint8)
    ends = data[(data == LINE_FEED) | (data == ord(delimiter))]
    return np.diff(np.flatnonzero(ends == LINE_FEED), prepend=-1)


def _factorized(column: str) -> tuple[Indices, NDArray[np.object_]]:
    """Return the position of each field of a column among its distinct texts, and these texts."""
    if not column:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=object)
    factorize = pandas_for("reading edges").factorize
    codes, distinct = _factorized_bytes(column)
    if codes is None:
        codes, distinct = factorize(np.array(column.split("\n"), dtype=object))
    stripped = list(map(str.strip, distinct))
    merged, texts = factorize(np.array(stripped, dtype=object))
    return (codes if len(texts) == len(stripped) else merged[codes]), texts


def _factorized_bytes(column: str) -> tuple[Indices | None, list[str]]:
    """Factorize fields by a hash of their bytes; ``None`` for long fields or equal hashes."""
    data = f"{column}\n".encode()
    line_feeds = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == LINE_FEED)
    bounds = np.concatenate([[0], line_feeds + 1])
    longest = int(np.diff(bounds).max())
    if longest > LONGEST_HASHED:
        return None, []
    data += bytes(LONGEST_HASHED + 8)
    windows: NDArray[np.uint64] = np.ndarray(len(data) - 7, "<u8", data, strides=(1,))
    starts, ends = bounds[:-1], bounds[1:]  # With the line feed, so that "a" is not "a\0".

    def words(fields: slice | Indices, at: int) -> NDArray[np.uint64]:
        sizes = np.minimum(np.maximum(ends[fields] - starts[fields] - at, 0), 8)
        masked: NDArray[np.uint64] = windows[starts[fields] + at] & MASKS[sizes]
        return masked

    hashes = np.zeros(len(ends), dtype=np.uint64)
    blocks = [slice(start, start + BLOCK) for start in range(0, len(ends), BLOCK)]
    for block in blocks:
        for at in range(0, longest, 8):
            hashes[block] = (hashes[block] ^ words(block, at)) * FACTOR
    hashes ^= hashes >> np.uint64(32)
    codes, _ = pandas_for("reading edges").factorize(hashes)
    del hashes
    first = np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
    for at in range(0, longest, 8):
        of_codes = words(first, at)
        if any((words(block, at) != of_codes[codes[block]]).any() for block in blocks):
            return None, []
    spans = zip(starts[first].tolist(), ends[first].tolist(), strict=True)
    return codes, [data[start : end - 1].decode() for start, end in spans]


def _names_columns(others: Fields, first: list[str], columns: Sequence[Column]) -> bool:
    """Return whether the words of the first line are column names."""
    is_named = any(column.name in first for column in columns)
    is_named = is_named or sum(_plain(field) in USUAL for field in first) > 1
    if is_named or not len(others.widths):
        return is_named
    if len(first) > 2 and (others.widths == len(first)).all():
        # A header: some column has a word in the first line and numbers or dates below.
        is_numeric = others.per_field(NUMERIC.fullmatch).reshape(-1, len(first))
        return bool(is_numeric.all(axis=0).any())
    return bool(others.per_field(WHOLE.fullmatch).mean() > 0.5)


def _refuse_doubt(fields: Fields, first_line: str) -> None:
    """Raise ArgumentError if no word of the first line is repeated, but other ids are."""
    is_repeated = (np.bincount(fields.codes) > 1)[fields.codes]
    lines_repeat = np.logical_or.reduceat(is_repeated, fields.starts)
    num_others = len(fields.widths) - 1
    if num_others and not lines_repeat[0] and lines_repeat.sum() > 0.9 * num_others:
        raise ArgumentError(
            "data.header",
            expected=f"data.header to be set, because the first line of {fields.path.name} may be "
            "a header or an edge",
            got=f"{first_line[:60]!r}; its words occur in no other line",
            remedy="set --data.header true if this line is a header, or --data.header false if it "
            "is an edge",
        )


def _plain(name: str) -> str:
    """Return a name in lower case, without spaces and punctuation."""
    return re.sub(r"[\s_.-]", "", name.lower())


def _find_column(fields: Fields, column: Column) -> int | None:
    """Return the position of a column, from 0, or ``None`` if it cannot be determined."""
    names = fields.names
    if not names:
        return _numbered_column(fields, column) if column.name else None
    if column.name:
        if column.name not in names:
            unknown = unknown_name(column.argument, column.name, names)
            raise ArgumentError(
                column.argument,
                expected=f"a column of {fields.path.name}: {unknown.expected}",
                got=unknown.got,
                remedy=unknown.remedy,
            )
        return names.index(column.name)
    plain = [_plain(name) for name in names]
    usual = [plain.index(name) for name in column.usual if name in plain]
    return usual[0] if len(usual) == 1 else None


def _numbered_column(fields: Fields, column: Column) -> int:
    width = int(fields.widths[0]) if len(fields.widths) else 0
    if not column.name.isdecimal() or not 1 <= int(column.name) <= width:
        raise ArgumentError(
            column.argument,
            expected=f"the number of a column from 1 to {width}, because {fields.path.name} has no "
            "header",
            got=repr(column.name),
            remedy="give the number of the column, or set --data.header true if the first line "
            "names the columns",
        )
    return int(column.name) - 1


def _two_columns(fields: Fields, columns: tuple[Column, Column], expected: str) -> Fields:
    """Return only the fields of two columns, which need no names if there are no other columns."""
    if not len(fields.widths):
        return fields
    first, second = (_find_column(fields, column) for column in columns)
    width = len(fields.names) if fields.names else int(fields.widths[0])
    if width == 2 and (first is None or second is None):
        first = first if first is not None else int(second == 0)
        second = 1 - first
    if first is None or second is None or first == second:
        if fields.names is None:
            fields.refuse(np.array([0]), expected)
        options = " and ".join(f"--{column.argument}" for column in columns)
        raise ArgumentError(
            ", ".join(column.argument for column in columns),
            expected=f"exactly two columns in {fields.path.name}, or the names of two columns",
            got=f"the columns {', '.join(fields.names or ())}",
            remedy=f"name two different columns with {options}",
        )
    wrong_width = (fields.widths != width).nonzero()[0]
    rows = int(wrong_width[0]) if len(wrong_width) else len(fields.widths)
    codes = fields.codes[: rows * width].reshape(rows, width)[:, [first, second]].ravel()
    names = [fields.names[first], fields.names[second]] if fields.names else None
    pairs = fields._replace(codes=codes, names=names, widths=np.full(rows, 2))
    fields.refuse(pairs.rows[~pairs.per_field(str.strip)], "an id in every field")
    fields.refuse(wrong_width, expected)
    return pairs


def _numbers(fields: Fields, columns: Sequence[Column]) -> dict[str, Tensor]:
    """Return the numbers or dates of the columns that a file has, by ``Column.argument``."""
    numbers = {}
    for column in columns:
        position = _find_column(fields, column)
        if position is None:
            continue
        codes = fields.codes[fields.starts + position]
        index, used = pandas_for("reading edges").factorize(codes)
        values = moments(fields.texts[used])[index]
        expected = f"a number or a date for {column.argument}"
        fields.refuse(np.isnan(values).nonzero()[0], expected, "correct or drop this line")
        numbers[column.argument] = torch.from_numpy(values)
    return numbers


def _refuse_ratings(fields: Fields) -> None:
    """Raise ArgumentError for a table of ratings without a header, as users are repeated in it."""
    width = int(fields.widths.max(initial=0))
    num_users = len(np.unique(fields.codes[fields.starts]))
    if width > 2 and (fields.widths == width).all() and 2 * num_users < len(fields.widths):
        raise ArgumentError(
            "data.user, data.item",
            expected="lines of the form `user item item ...`, or the column numbers of users and "
            "items",
            got=f"{width} columns without names, with repeated users, in {fields.path.name}",
            remedy="give the column numbers, such as --data.user 1 --data.item 2 --data.time 4",
        )


def _empty(path: Path | FrameSource) -> ArgumentError:
    remedy = "name a text file with one edge or interaction per line"
    return unreadable(path, expected="at least one edge", got="none", remedy=remedy)
