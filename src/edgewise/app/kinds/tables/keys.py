"""Primary and foreign keys, and time columns, of the tables of a database: declared or found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from edgewise._utils.errors import ArgumentError, unknown_name
from edgewise._utils.ragged import runs_and_positions
from edgewise.app.files.dates import is_date_column
from edgewise.app.files.reading import log
from edgewise.app.files.table import Table, is_missing
from edgewise.app.kinds.tables.files import Database

Integers = NDArray[np.int64]
TIMES = ("time", "timestamp", "date", "datetime", "created_at", "as_of")
"""Usual names of a time column, if a table has several columns of dates."""
SAMPLE = 1000  # Number of cells from which a column of dates is recognised.


class ForeignKey(NamedTuple):
    """Column of a table that refers to the primary key of another table, or of the same one."""

    table: str
    column: str
    refers_to: str

    @property
    def name(self) -> str:
        """Name for messages, such as ``orders.customer_id``."""
        return f"{self.table}.{self.column}"


class Keys(NamedTuple):
    """Primary key and time column by table, and all foreign keys."""

    primary: dict[str, str]
    foreign: tuple[ForeignKey, ...]
    times: dict[str, str]

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Keys:
        """Create keys from the JSON form of ``_asdict()``."""
        return cls(
            dict(record["primary"]),
            tuple(ForeignKey(*key) for key in record["foreign"]),
            dict(record["times"]),
        )

    @property
    def columns(self) -> set[tuple[str, str]]:
        """Columns that are keys, which have no cells of their own."""
        return {*self.primary.items(), *((key.table, key.column) for key in self.foreign)}


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
    if not primary:
        declared = {
            name: column
            for name, column in database.primary.items()
            if name in tables and column in tables[name].columns
        }
        primary_keys = declared or {
            name: column
            for name, table in tables.items()
            if (column := _primary_key(name, table, target))
        }
    for name, column in primary_keys.items():
        _check_unique(tables[name], name, column)
    foreign_keys = list(_named_foreign(tables, primary_keys, foreign))
    if not foreign:
        # Names say less than a declaration, also if the declared key cannot be followed.
        search = _declared_foreign if database.foreign else _foreign_keys
        foreign_keys = list(search(database, primary_keys))
    foreign_keys = [key for key in foreign_keys if (key.table, key.column) != target]
    time_columns = dict(
        column_of(tables, "data.times", text) for text in times if text != "none"
    ) or ({} if times else dict(_time_columns(tables, target)))
    return Keys(primary_keys, tuple(foreign_keys), time_columns)


def _named_primary(tables: Mapping[str, Table], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in names:
        if text != "none":
            yield column_of(tables, "data.primary_keys", text)


def _named_foreign(
    tables: Mapping[str, Table], primary: Mapping[str, str], names: Sequence[str]
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
        if parent_column not in ("", primary[table]):
            raise ArgumentError(
                "data.foreign_keys",
                expected=f"a reference to {table}.{primary[table]}, the primary key of {table}",
                got=repr(text),
                remedy=f"write {column}={table}, or name another primary key with "
                f"--data.primary_keys {refers_to}",
            )
        yield ForeignKey(*column_of(tables, "data.foreign_keys", column), table)


def _declared_foreign(database: Database, primary: Mapping[str, str]) -> Iterator[ForeignKey]:
    """Yield the declared keys that refer to primary keys; log the others."""
    # SQLite does not distinguish the case of names.
    lowered = {(name.lower(), column.lower()): name for name, column in primary.items()}
    for (name, column), (parent, parent_column) in database.foreign.items():
        if name not in database.tables or column not in database.tables[name].columns:
            continue
        if primary.get(parent) == parent_column:
            yield ForeignKey(name, column, parent)
        elif (table := lowered.get((parent.lower(), parent_column.lower()))) is not None:
            yield ForeignKey(name, column, table)
        else:
            log.info(
                f"{name}.{column}: refers to {parent}.{parent_column}, which is not the primary "
                "key of a table that is read, so the key is not followed"
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


def _foreign_keys(database: Database, primary: Mapping[str, str]) -> Iterator[ForeignKey]:
    """Yield the columns that are called like a table, as customer_id or first_customer_id, or else
    like the primary key of one other table.
    """
    for name, table in database.tables.items():
        for column in table.columns:
            by_table = [other for other in primary if _ends_in(column, *_references_to(other))]
            by_key = [other for other, key in primary.items() if _ends_in(column, key)]
            if column == primary.get(name):  # Tables of equal rows may share their primary key.
                by_table, by_key = [other for other in by_table if other != name], []
            elif column.lower() == "parent_id" and name in primary:
                by_key = [name]
            refers_to = by_table or by_key
            if len(refers_to) == 1:
                yield ForeignKey(name, column, refers_to[0])


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


def _check_unique(table: Table, name: str, column: str) -> None:
    first: dict[str, int] = {}
    for row, cell in enumerate(table.texts("data.primary_keys", column)):
        value = without_fraction(cell)
        if is_missing(cell) or value in first:
            earlier = "" if is_missing(cell) else f", as in row {table.line(first[value])}"
            raise ArgumentError(
                "data.primary_keys",
                expected=f"a different value of {name}.{column} in each row",
                got=table.cell(column, row) + earlier,
                remedy="correct this row, or name another column with --data.primary_keys",
            )
        first[value] = row


class References(NamedTuple):
    """Pairs of rows that a foreign key connects: the row that refers, and the row it refers to."""

    child: Integers
    parent: Integers


def references(tables: Mapping[str, Table], keys: Keys, key: ForeignKey) -> References:
    """Return the rows that a foreign key connects; missing values refer to nothing.

    Raises:
        ArgumentError: a value is not in the primary key; names the number of such rows and one.
    """
    parent_column = keys.primary[key.refers_to]
    parents = tables[key.refers_to].texts("data.primary_keys", parent_column)
    row_of = {without_fraction(cell): row for row, cell in enumerate(parents)}
    table = tables[key.table]
    cells = table.texts("data.foreign_keys", key.column)
    pairs: list[tuple[int, int]] = []
    dangling: list[int] = []
    for row, cell in enumerate(cells):
        if is_missing(cell):
            continue
        parent = row_of.get(without_fraction(cell))
        if parent is None:
            dangling.append(row)
        else:
            pairs.append((row, parent))
    if dangling:
        raise ArgumentError(
            "data.foreign_keys",
            expected=f"values of {key.refers_to}.{parent_column} in {key.name}",
            got=f"{len(dangling):,} of {len(cells):,} rows that refer to no row, such as "
            f"{table.cell(key.column, dangling[0])}",
            remedy="add the missing rows, clear these cells, or name the keys yourself with "
            "--data.foreign_keys",
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
    for name in database.tables:
        foreign = [
            f"{key.column} = {key.refers_to}.{keys.primary[key.refers_to]}"
            + (f" (refers to itself, {depths[key.name]} deep)" if key.name in depths else "")
            for key in keys.foreign
            if key.table == name
        ]
        log.info(
            f"{name}: {len(database.tables[name]):,} rows, primary key "
            f"{keys.primary.get(name, 'none')}, foreign keys {', '.join(foreign) or 'none'}, "
            f"time {keys.times.get(name, 'none')}"
        )
