"""Primary and foreign keys, and time columns, of the tables of a database: declared or found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from edgewise._utils.errors import ArgumentError, message_of, unknown_name
from edgewise._utils.ragged import runs_and_positions
from edgewise.app.files.dates import is_date_column
from edgewise.app.files.reading import log
from edgewise.app.files.table import Table, is_missing
from edgewise.app.kinds.tables.files import Database

Integers = NDArray[np.int64]
Dangling = Literal["error", "missing"]
TIMES = ("time", "timestamp", "date", "datetime", "created_at", "as_of")
"""Usual names of a time column, if a table has several columns of dates."""
SAMPLE = 1000  # Number of cells from which a column of dates is recognised.


class ForeignKey(NamedTuple):
    """Columns of a table that refer to the primary key of another table, or of the same one."""

    table: str
    columns: tuple[str, ...]
    refers_to: str

    @property
    def name(self) -> str:
        """Name for messages, such as ``orders.customer_id`` or ``flights.origin+hour``."""
        return f"{self.table}.{'+'.join(self.columns)}"


class Keys(NamedTuple):
    """Columns of the primary key and time column by table, and all foreign keys."""

    primary: dict[str, tuple[str, ...]]
    foreign: tuple[ForeignKey, ...]
    times: dict[str, str]

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Keys:
        """Create keys from the JSON form of ``_asdict()``."""
        return cls(
            {name: tuple(columns) for name, columns in record["primary"].items()},
            tuple(ForeignKey(name, tuple(columns), to) for name, columns, to in record["foreign"]),
            dict(record["times"]),
        )

    def columns(self, *, only_single: bool = False) -> set[tuple[str, str]]:
        """Return the columns of the keys, or those that are a key by themselves, which have no
        cells.
        """
        keys = [*self.primary.items(), *((key.table, key.columns) for key in self.foreign)]
        return {
            (table, column)
            for table, columns in keys
            for column in columns
            if len(columns) == 1 or not only_single
        }


def split_name(tables: Mapping[str, Table], text: str) -> tuple[str, str]:
    """Split TABLE.COLUMN, of which both may have dots: prefer an existing column, then the longest
    name of a table.
    """
    dots = [dot.start() for dot in re.finditer(r"\.", text)]
    names = [(text[:dot], text[dot + 1 :]) for dot in reversed(dots)]
    in_tables = [(table, column) for table, column in names if table in tables]
    existing = [name for name in in_tables if name[1] in tables[name[0]].frame.columns]
    return [*existing, *in_tables, *names, (text, "")][0]


def column_of(tables: Mapping[str, Table], argument: str, text: str) -> tuple[str, str]:
    """Return table and column of a name such as ``customers.churn``; ArgumentError suggests one."""
    table, column = split_name(tables, text)
    if not column:
        raise ArgumentError(
            argument,
            expected="a table and a column, such as customers.churn",
            got=repr(text),
            remedy=f"write TABLE.COLUMN with one of the tables {', '.join(tables)}",
        )
    if table not in tables:
        raise unknown_name(argument, table, tables)
    tables[table].check_column(argument, column)
    return table, column


def columns_of(
    tables: Mapping[str, Table], argument: str, text: str
) -> tuple[str, tuple[str, ...]]:
    """Return table and columns of a name such as ``weather.origin+hour``."""
    table, column = split_name(tables, text)
    is_single = table in tables and column in tables[table].frame.columns
    first, *others = [column] if is_single else column.split("+")
    table, first = column_of(tables, argument, f"{table}.{first}" if column else text)
    for other in others:
        tables[table].check_column(argument, other)
    return table, (first, *others)


def find_keys(
    database: Database,
    primary: Sequence[str],
    foreign: Sequence[str],
    times: Sequence[str],
    target: tuple[str, str],
) -> Keys:
    """Return the keys: those that the arguments name, or that the database declares, or those that
    names and values suggest. ``("none",)`` uses none.
    """
    tables = database.tables
    primary_keys = dict(_named_primary(tables, primary))
    for name, columns in primary_keys.items():
        _check_unique(tables[name], name, columns)
    if not primary:
        declared = {
            name: columns
            for name, columns in database.primary.items()
            if name in tables
            and set(columns) <= set(tables[name].columns)
            and _identifies_rows(tables[name], name, columns)
        }
        primary_keys = declared or {
            name: (column,)
            for name, table in tables.items()
            if (column := _primary_key(name, table, target))
        }
    foreign_keys = list(_named_foreign(tables, primary_keys, foreign))
    if not foreign:
        # Names say less than a declaration, also if the declared key cannot be followed.
        search = _declared_foreign if database.foreign else _foreign_keys
        foreign_keys = list(search(database, primary_keys))
    foreign_keys = [
        key for key in foreign_keys if target not in [(key.table, name) for name in key.columns]
    ]
    time_columns = dict(
        column_of(tables, "data.times", text) for text in times if text != "none"
    ) or ({} if times else dict(_time_columns(tables, target)))
    return Keys(primary_keys, tuple(foreign_keys), time_columns)


def _named_primary(
    tables: Mapping[str, Table], names: Sequence[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for text in names:
        if text != "none":
            yield columns_of(tables, "data.primary_keys", text)


def _named_foreign(
    tables: Mapping[str, Table], primary: Mapping[str, tuple[str, ...]], names: Sequence[str]
) -> Iterator[ForeignKey]:
    for text in names:
        if text == "none":
            continue
        column, _, refers_to = text.partition("=")
        is_table = refers_to in primary
        table, parent_column = (refers_to, "") if is_table else split_name(tables, refers_to)
        if table not in primary:
            raise ArgumentError(
                "data.foreign_keys",
                expected="COLUMN=TABLE for a table with a primary key, such as "
                "orders.customer_id=customers",
                got=repr(text),
                remedy=f"refer to one of {', '.join(primary) or 'no table'}, or name its primary "
                "key in data.primary_keys",
            )
        parent_name = "+".join(primary[table])
        is_whole = parent_column in ("", parent_name)
        refers_to_columns = primary[table] if is_whole else tuple(parent_column.split("+"))
        if sorted(refers_to_columns) != sorted(primary[table]):
            raise ArgumentError(
                "data.foreign_keys",
                expected=f"a reference to {table}.{parent_name}, the primary key of {table}",
                got=repr(text),
                remedy=f"write {column}={table}, or name another primary key with "
                f"--data.primary_keys {refers_to}",
            )
        child, columns = columns_of(tables, "data.foreign_keys", column)
        if len(columns) != len(refers_to_columns):
            raise ArgumentError(
                "data.foreign_keys",
                expected=f"a column for each of {table}.{parent_name}",
                got=repr(text),
                remedy="join the names of columns with +, as in flights.origin+hour=weather",
            )
        column_for = dict(zip(refers_to_columns, columns, strict=True))
        yield ForeignKey(child, tuple(column_for[name] for name in primary[table]), table)


def _declared_foreign(
    database: Database, primary: Mapping[str, tuple[str, ...]]
) -> Iterator[ForeignKey]:
    """Yield the declared keys that refer to primary keys; log the others."""
    for (name, columns), (parent, parent_columns) in database.foreign.items():
        if name not in database.tables or not set(columns) <= set(database.tables[name].columns):
            continue
        key = ForeignKey(name, columns, parent)
        # A declaration can have another order than the primary key. SQLite ignores case.
        refers_to = {
            to.lower(): column for to, column in zip(parent_columns, columns, strict=False)
        }
        by_case = {table.lower(): table for table in primary}
        table = parent if parent in primary else by_case.get(parent.lower(), "")
        names = [column.lower() for column in primary.get(table, ())]
        if names and set(names) == set(refers_to):
            yield ForeignKey(name, tuple(refers_to[column] for column in names), table)
        else:
            log.info(
                f"{key.name}: refers to {parent}.{'+'.join(parent_columns)}, which is not the "
                "primary key of a table that is read, so the key is not followed"
            )


def _singular(name: str) -> str:
    word = name.lower()
    return word.removesuffix("ies") + "y" if word.endswith("ies") else word.removesuffix("s")


def _primary_key(name: str, table: Table, target: tuple[str, str]) -> str:
    """Return the first distinct column with a usual name, or the first column if it is distinct and
    its name ends in id, or "".
    """
    words, ends = {name.lower(), _singular(name)}, ("_id", "id", "_key", "_no", "_code", "")
    usual = {"id", "key", *(word + end for word in words for end in ends)}
    first = next(iter(table.columns), "").lower()
    usual |= {first} if first.endswith("id") else set()
    for column, cells in table.columns.items():
        named = column.lower() in usual and (name, column) != target
        if (
            named
            and len(set(map(without_fraction, cells))) == len(cells)
            and not any(map(is_missing, cells))
        ):
            return column
    return ""


def _foreign_keys(
    database: Database, primary: Mapping[str, tuple[str, ...]]
) -> Iterator[ForeignKey]:
    """Yield the columns that are called like a table, as customer_id or first_customer_id, or else
    like the primary key of one other table; and those called like a primary key of several columns.
    """
    single = {name: columns[0] for name, columns in primary.items() if len(columns) == 1}
    several = {name: columns for name, columns in primary.items() if len(columns) > 1}
    for name, table in database.tables.items():
        for other, columns in several.items():
            # Tables of equal rows may share their primary key.
            shares = set(columns) == set(primary.get(name, ()))
            if other == name or shares or not set(columns) <= set(table.columns):
                continue
            values, parents = (
                _values(either, "data.foreign_keys", columns)
                for either in (table, database.tables[other])
            )
            if set(values) & set(parents) - {None}:
                yield ForeignKey(name, columns, other)
        for column in table.columns:
            by_table = [other for other in single if _ends_in(column, *_references_to(other))]
            by_key = [other for other, key in single.items() if _ends_in(column, key)]
            if column == single.get(name):
                by_table, by_key = [other for other in by_table if other != name], []
            elif column.lower() == "parent_id" and name in single:
                by_key = [name]
            refers_to = by_table or by_key
            if len(refers_to) == 1:
                yield ForeignKey(name, (column,), refers_to[0])


def _references_to(table: str) -> tuple[str, str]:
    return f"{_singular(table)}_id", f"{table}_id"


def _ends_in(column: str, *names: str) -> bool:
    """Return whether a column has one of these names, or ends in ``_NAME``; id is too general."""
    lowered = column.lower()
    usual = {name.lower() for name in names} - {"id", "key"}
    return any(lowered == name or lowered.endswith(f"_{name}") for name in usual)


def _time_columns(
    tables: Mapping[str, Table], target: tuple[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the column of dates of each table; of several, the one with a usual name."""
    for name, table in tables.items():
        dates = [
            column
            for column, cells in table.columns.items()
            if (name, column) != target and column not in table.numeric and holds_dates(cells)
        ]
        usual = [column for column in dates if column.lower() in TIMES]
        if len(dates) > 1 and len(usual) != 1:
            raise ArgumentError(
                "data.times",
                expected=f"one column with the time at which a row of {name!r} became known",
                got=f"{len(dates)} columns of dates: {', '.join(dates)}",
                remedy=f"name the time column of each table: --data.times {name}.{dates[0]}, or "
                "none",
            )
        if dates:
            yield name, (usual or dates)[0]


def holds_dates(cells: Sequence[str]) -> bool:
    """Return whether all cells that are not missing are dates of one format."""
    present = [cell for cell in dict.fromkeys(cells) if not is_missing(cell)][:SAMPLE]
    return bool(present) and is_date_column(present)


Value = tuple[str, ...]


def _values(table: Table, argument: str, columns: Sequence[str]) -> list[Value | None]:
    """Return the value of a key in each row, None if a cell of it is missing."""
    cells = [table.texts(argument, column) for column in columns]
    return [
        None if any(map(is_missing, row)) else tuple(map(without_fraction, row))
        for row in zip(*cells, strict=True)
    ]


def _described(table: Table, columns: Sequence[str], row: int) -> str:
    return " and ".join(table.cell(column, row) for column in columns)


def _check_unique(table: Table, name: str, columns: Sequence[str]) -> None:
    first: dict[Value, int] = {}
    for row, value in enumerate(_values(table, "data.primary_keys", columns)):
        if value is None or value in first:
            earlier = "" if value is None else f", as in row {table.line(first[value])}"
            raise ArgumentError(
                "data.primary_keys",
                expected=f"a different value of {name}.{'+'.join(columns)} in each row",
                got=_described(table, columns, row) + earlier,
                remedy="correct this row, or name another column with --data.primary_keys",
            )
        first[value] = row


def _identifies_rows(table: Table, name: str, columns: Sequence[str]) -> bool:
    """Return whether each row has a different value of a declared key, and log a key with missing
    values, which SQLite allows.
    """
    try:
        _check_unique(table, name, columns)
    except ArgumentError as error:
        log.info(f"the declared primary key is not used: {message_of(error)}")
        return False
    return True


class References(NamedTuple):
    """Pairs of rows that a foreign key connects: the row that refers, and the row it refers to."""

    child: Integers
    parent: Integers


def references(
    tables: Mapping[str, Table], keys: Keys, key: ForeignKey, dangling: Dangling
) -> References:
    """Return the rows that a foreign key connects; missing values refer to nothing.

    Raises:
        ArgumentError: a value is not in the primary key and ``dangling`` is "error"; names the
            number of such rows and one.
    """
    parent_columns = keys.primary[key.refers_to]
    parents = _values(tables[key.refers_to], "data.primary_keys", parent_columns)
    row_of = {value: row for row, value in enumerate(parents)}
    table = tables[key.table]
    values = _values(table, "data.foreign_keys", key.columns)
    pairs: list[tuple[int, int]] = []
    unmatched: list[int] = []
    for row, value in enumerate(values):
        if value is None:
            continue
        parent = row_of.get(value)
        if parent is None:
            unmatched.append(row)
        else:
            pairs.append((row, parent))
    if unmatched and dangling == "missing":
        log.info(
            f"{key.name}: {len(unmatched):,} of {len(values):,} rows refer to no row of "
            f"{key.refers_to}, which is read as a missing value"
        )
    elif unmatched:
        raise ArgumentError(
            "data.foreign_keys",
            expected=f"values of {key.refers_to}.{'+'.join(parent_columns)} in {key.name}",
            got=f"{len(unmatched):,} of {len(values):,} rows that refer to no row, such as "
            f"{_described(table, key.columns, unmatched[0])}",
            remedy="add the missing rows; read these cells as missing with --data.dangling missing "
            "if other rows refer to one; or name the keys yourself with --data.foreign_keys, "
            f"columns in the order of {'+'.join(parent_columns)}",
        )
    return References(*np.array(pairs, dtype=np.int64).reshape(-1, 2).T)


def without_fraction(cell: str) -> str:
    """Return 7 for 7.0, as pandas writes integers of a column with missing values."""
    text = cell.strip()
    integer = text.removesuffix(".0")
    return integer if integer.removeprefix("-").isdigit() else text


def segments(lengths: Integers) -> tuple[Integers, Integers]:
    """Return the segment of each element, and its position in the segment."""
    index, position = runs_and_positions(torch.from_numpy(lengths))
    return index.numpy(), position.numpy()


def check_acyclic(child: Integers, parent: Integers, num_rows: int, describe: Any) -> int:
    """Return the largest number of foreign keys in a row that lead from one row to the next.

    Raises:
        ArgumentError: they lead back to the same row; ``describe`` names a row.
    """
    remaining = np.bincount(child, minlength=num_rows)
    order = np.argsort(parent, kind="stable")
    sorted_child = child[order]
    start = np.searchsorted(parent[order], np.arange(num_rows + 1))
    level = np.flatnonzero(remaining == 0)
    depth, num_done = 0, len(level)
    while len(level):
        counts = start[level + 1] - start[level]
        index, position = segments(counts)
        children = sorted_child[start[level][index] + position]
        np.subtract.at(remaining, children, 1)
        level = np.unique(children[remaining[children] == 0])
        num_done += len(level)
        depth += bool(len(level))
    if num_done < num_rows:
        path = [int(np.flatnonzero(remaining > 0)[0])]
        while path[-1] not in path[:-1]:  # Each remaining row refers to another remaining row.
            refers_to = parent[child == path[-1]]
            path.append(int(refers_to[remaining[refers_to] > 0][0]))
        rows = [describe(row) for row in path[path.index(path[-1]) :]]
        raise ArgumentError(
            "data.foreign_keys",
            expected="keys that never lead back to the same row",
            got=f"{rows[0]}, which refers to itself by {' → '.join(rows[1:])}",
            remedy="correct this row, or leave one of these keys out of --data.foreign_keys",
        )
    return depth


def note_keys(keys: Keys, database: Database, depths: Mapping[str, int]) -> None:
    """Log the keys, the time columns, and how deep a table refers to itself."""
    shown = {name: "+".join(columns) for name, columns in keys.primary.items()}
    for name in database.tables:
        foreign = [
            f"{'+'.join(key.columns)} = {key.refers_to}.{shown[key.refers_to]}"
            + (f" (refers to itself, {depths[key.name]} deep)" if key.name in depths else "")
            for key in keys.foreign
            if key.table == name
        ]
        log.info(
            f"{name}: {len(database.tables[name]):,} rows, primary key {shown.get(name, 'none')}, "
            f"foreign keys {', '.join(foreign) or 'none'}, time {keys.times.get(name, 'none')}"
        )
