"""Rows of a database with the keys that connect them, and the rows visible to a row to predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.table import Table
from edgewise.app.kinds.tables.columns import (
    Column,
    Numbers,
    ParsedColumns,
    cells_of,
    read_times_of,
)
from edgewise.app.kinds.tables.keys import (
    Dangling,
    Integers,
    Keys,
    check_acyclic,
    references,
    segments,
    split_name,
)
from edgewise.graphs import Edges


class Link(NamedTuple):
    """References of one foreign key, sorted by parent and time: ``order`` combines both."""

    name: str
    child: Integers
    parent: Integers
    order: Integers


class Children(NamedTuple):
    """Pairs of the index of a row in a list of rows, and a row that refers to it."""

    parent: Integers
    row: Integers


class Context(NamedTuple):
    """Rows visible to B examples: example and row, ``[n]``, the row to predict first."""

    example: Integers
    row: Integers


class Rows:
    """All rows of a database on one axis, with their times and the keys that connect them.

    Args:
        tables: tables by name, whose rows follow each other on the axis.
        keys: primary keys, foreign keys and time columns.
        dangling: whether a value that refers to no row is an error, or read as missing.

    Raises:
        ArgumentError: a foreign key refers to no row, or leads back to its own row.
    """

    def __init__(
        self, tables: Mapping[str, Table], keys: Keys, dangling: Dangling = "error"
    ) -> None:
        self.tables, self.keys = tables, keys
        self.parsed = ParsedColumns(tables)
        sizes = np.array([len(table) for table in tables.values()])
        self.first = dict(zip(tables, (np.cumsum(sizes) - sizes).tolist(), strict=True))
        self.table_of = np.repeat(np.arange(len(tables)), sizes)
        self.time = np.full(len(self.table_of), -np.inf)
        for name, times in read_times_of(self.parsed, keys.times).items():
            # A row without a time is later than the time of any row to predict.
            self.time[self.rows_of(name)] = np.nan_to_num(times, nan=np.inf)
        self.distinct_times, rank = np.unique(self.time, return_inverse=True)
        self.depths: dict[str, int] = {}
        links: list[Link] = []
        for key in keys.foreign:
            pairs = references(tables, keys, key, dangling)
            child, parent = pairs.child + self.first[key.table], pairs.parent
            parent = parent + self.first[key.refers_to]
            order = self._order(parent, rank[child])
            at = np.argsort(order, kind="stable")
            links.append(Link(key.name, child[at], parent[at], order[at]))
            if key.table == key.refers_to:
                count = len(self)
                self.depths[key.name] = check_acyclic(child, parent, count, self.describe)
        self.links = links
        empty = np.empty(0, dtype=np.int64)
        self.child = np.concatenate([empty, *(link.child for link in links)])
        self.parent = np.concatenate([empty, *(link.parent for link in links)])
        check_acyclic(self.child, self.parent, len(self), self.describe)
        at = np.argsort(self.child, kind="stable")
        self.child, self.parent = self.child[at], self.parent[at]
        self.first_parent = np.searchsorted(self.child, np.arange(len(self) + 1))

    def __len__(self) -> int:
        return len(self.table_of)

    def rows_of(self, name: str) -> slice:
        """Return the rows of a table."""
        return slice(self.first[name], self.first[name] + len(self.tables[name]))

    def local(self, row: int) -> tuple[str, int]:
        """Return the table of a row, and its index in the table."""
        name = list(self.tables)[self.table_of[row]]
        return name, row - self.first[name]

    def describe(self, row: int) -> str:
        """Return the name of a row, such as "orders 17"."""
        return f"{self.local(row)[0]} {self.key(row)}"

    def key(self, row: int) -> str:
        """Return the primary key of a row; in a table without one, "row" and the line number."""
        name, index = self.local(row)
        if name in self.keys.primary:
            columns = self.tables[name].columns
            return "+".join(columns[column][index] for column in self.keys.primary[name])
        return f"row {self.tables[name].line(index)}"

    def _order(self, parent: Integers, rank: Integers) -> Integers:
        order: Integers = parent * (len(self.distinct_times) + 1) + rank
        return order

    def parents(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return the index in ``rows``, and the row, of each row to which one of them refers."""
        start = self.first_parent[rows]
        index, position = segments(self.first_parent[rows + 1] - start)
        return index, self.parent[start[index] + position]

    def children(self, link: Link, rows: Integers, cutoff: Numbers, max_children: int) -> Children:
        """Return the latest ``max_children`` rows that refer to each row by a key, the latest
        first; none later than the cutoff of the row.
        """
        rank = np.searchsorted(self.distinct_times, cutoff, side="right") - 1
        start = np.searchsorted(link.order, self._order(rows, np.zeros_like(rows)))
        stop = np.searchsorted(link.order, self._order(rows, rank), side="right")
        index, position = segments(np.clip(stop - start, 0, max_children))
        return Children(index, link.child[stop[index] - 1 - position])

    def context(
        self,
        rows: Integers,
        cutoff: Numbers,
        *,
        hops: int,
        max_children: int,
        width: Integers,
        cells: int,
    ) -> Context:
        """Return the rows that are visible to each of B rows.

        From each row, the context grows ``hops`` times by the rows to which its rows refer and the
        latest ``max_children`` rows per key that refer to them, then once more by the rows to which
        these refer. The nearest rows with at most ``cells`` cells are used; ``width`` has the
        number of cells of each row. A row later than the cutoff is never visible.
        """
        frontier = Context(np.arange(len(rows)), rows)
        layers, visited = [frontier], frontier.example * len(self) + frontier.row
        for hop in range(hops + 1):
            index, row = self.parents(frontier.row)
            indices, row_lists = [index], [row]
            if hop < hops:
                for link in self.links:
                    latest = self.children(
                        link, frontier.row, cutoff[frontier.example], max_children
                    )
                    indices.append(latest.parent)
                    row_lists.append(latest.row)
            example = frontier.example[np.concatenate(indices)]
            row = np.concatenate(row_lists)
            visible = self.time[row] <= cutoff[example]
            new, at = np.unique((example * len(self) + row)[visible], return_index=True)
            new = new[np.argsort(at, kind="stable")]
            new = new[~np.isin(new, visited)]
            frontier = Context(new // len(self), new % len(self))
            layers.append(frontier)
            visited = np.concatenate([visited, new])
        example, row = (np.concatenate(parts) for parts in zip(*layers, strict=True))
        at = np.argsort(example, kind="stable")
        example, row = example[at], row[at]
        total = np.cumsum(width[row])
        before = (total - width[row])[np.searchsorted(example, np.arange(len(rows)))]
        fits = total - before[example] <= cells
        fits[np.searchsorted(example, np.arange(len(rows)))] = True
        return Context(example[fits], row[fits])


class CellBatch(NamedTuple):
    """Inputs of :func:`edgewise.models.relational_transformer` for B rows to predict: ``x``,
    ``cells``, the graph of their rows, the number of cells for each; and the row of each cell.
    """

    x: Tensor
    cells: Tensor
    graph: Edges
    sizes: Tensor
    row: Integers


class EncodedRows:
    """Cells of all rows of a database as inputs of a model.

    Args:
        rows: rows and keys.
        columns: columns with scale and values, of one table after the other.
        target: column to predict, such as ``customers.churn``; its cell is the first of each row.
    """

    def __init__(self, rows: Rows, columns: Sequence[Column], target: str) -> None:
        self.rows, self.columns = rows, columns
        self.names = [target, *(f"{column.table}.{column.name}" for column in columns)]
        self.target = target = split_name(rows.tables, target)[0]
        # Column 0 is the column to predict, whose only value is a masked one.
        codes = np.cumsum([1, *(column.num_codes for column in columns)])
        self.num_columns, self.num_values = 1 + len(columns), int(codes[-1])
        numbers, code_of, column_of, dates = [], [], [], []
        widths: list[int] = []
        for name, table in rows.tables.items():
            of_table = [i for i, column in enumerate(columns) if column.table == name]
            cells = [cells_of(rows.parsed, columns[i]) for i in of_table]
            masked = [np.zeros(len(table), dtype=np.int64)] * (name == target)
            empty = [np.full(len(table), np.nan)] * (name == target)
            is_date = [columns[i].type == "date" for i in of_table]
            scaled = [columns[i].scaled(c.numbers) for i, c in zip(of_table, cells, strict=True)]
            seconds = [
                c.numbers / columns[i].std if date else np.full(len(table), np.nan)
                for i, c, date in zip(of_table, cells, is_date, strict=True)
            ]
            indices = [c.codes + codes[i] for i, c in zip(of_table, cells, strict=True)]
            widths.append(len(cells) + len(masked))
            numbers.append(np.stack([*(np.zeros_like(e) for e in empty), *scaled], 1).ravel())
            dates.append(np.stack([*empty, *seconds], 1).ravel())
            code_of.append(np.stack([*masked, *indices], 1).ravel())
            numbered = np.array([0] * len(masked) + [i + 1 for i in of_table])
            column_of.append(np.tile(numbered, len(table)))
        self.numbers, self.dates = np.concatenate(numbers), np.concatenate(dates)
        self.code, self.column = np.concatenate(code_of), np.concatenate(column_of)
        self.std = np.array([1.0, *(column.std for column in columns)])
        row_width = np.array(widths)[rows.table_of]
        self.first_cell = np.cumsum(row_width) - row_width
        is_target = rows.table_of == list(rows.tables).index(target)
        # Only the row to predict has the masked cell; its value in other rows is never read.
        self.first_cell = self.first_cell + is_target
        self.width = row_width - is_target

    def cutoff(self, rows: Integers) -> Numbers:
        """Return the time after which no row is visible to each row; infinity without times."""
        if self.target not in self.rows.keys.times:
            return np.full(len(rows), np.inf)
        cutoff = self.rows.time[rows]
        for row in rows[np.isinf(cutoff)][:1]:
            column = self.rows.keys.times[self.target]
            raise ArgumentError(
                "data.times",
                expected=f"a time in {self.target}.{column} for each row to predict",
                got=f"none in {self.rows.describe(int(row))}",
                remedy="add the time, or name another column with --data.times",
            )
        return cutoff

    def batch(self, rows: Integers, *, hops: int, max_children: int, cells: int) -> CellBatch:
        """Return the inputs of a model for these rows of the target's table."""
        cutoff = self.cutoff(rows)
        context = self.rows.context(
            rows, cutoff, hops=hops, max_children=max_children, width=self.width, cells=cells - 1
        )
        example, row = context
        is_first = np.diff(example, prepend=-1) > 0
        index, position = segments(self.width[row] + is_first)
        cell = (self.first_cell[row] - is_first)[index] + position
        age = cutoff[example[index]] / self.std[self.column[cell]] - self.dates[cell]
        age = np.where(np.isfinite(age), age, 0.0)
        x = np.stack([self.numbers[cell], age], axis=1)
        ids = np.stack([self.column[cell], self.code[cell], index], axis=1)
        child, parent_row = self.rows.parents(row)
        key = example * len(self.rows) + row
        at = np.argsort(key)
        parent_key = example[child] * len(self.rows) + parent_row
        position = np.searchsorted(key[at], parent_key).clip(max=len(key) - 1)
        inside = key[at][position] == parent_key
        edge_index = np.stack([at[position[inside]], child[inside]])
        sizes = np.bincount(example[index], minlength=len(rows))
        return CellBatch(
            torch.from_numpy(x).float(),
            torch.from_numpy(ids),
            Edges(torch.from_numpy(edge_index), len(row), len(row)),
            torch.from_numpy(sizes),
            row[index],
        )

    def cell_names(self, batch: CellBatch) -> list[str]:
        """Return the name of each cell, such as "products.price of p3"."""
        columns, rows = batch.cells[:, 0].tolist(), batch.row.tolist()
        return [
            f"{self.names[column]} of {self.rows.key(row)}"
            for column, row in zip(columns, rows, strict=True)
        ]
