"""Tables with keys: the user's database, and a generated shop.

Paper of the sampling and of the splits by time: Robinson et al., RelBench: A benchmark for deep
learning on relational databases, 2024.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice, check_given, check_range
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.files import naming
from edgewise.app.files.table import Table
from edgewise.app.files.target_columns import TargetColumns, TaskType, missing_cells
from edgewise.app.kinds.tables.columns import (
    Column,
    check_tables,
    find_columns,
    fitted,
)
from edgewise.app.kinds.tables.context import CellBatch, EncodedRows, Rows
from edgewise.app.kinds.tables.files import Database, read_database
from edgewise.app.kinds.tables.keys import (
    Dangling,
    Integers,
    Keys,
    column_of,
    find_keys,
    note_keys,
    references,
)
from edgewise.app.kinds.tables.shop import shop_tables, write_tables
from edgewise.app.train.batches import Batch
from edgewise.app.train.folds import Folds, How
from edgewise.app.train.splits import Data, Split, Splits, TargetScale

By = Literal["auto", "random", "time"]


@dataclass(frozen=True)
class RelationalBatch(Batch):
    """Batch of rows to predict, with the database from which baselines compute features."""

    database: EncodedRows | None = None
    rows: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))


@dataclass(frozen=True)
class RelationalData(Data):
    """Base class of databases, of which a column of one table is predicted.

    Each cell of the visible rows is a token. The rows visible to a row are those that keys connect
    with it: see :meth:`~edgewise.app.kinds.tables.context.Rows.context`. If the table of the target
    has a time column, no row of a later time is visible, in training or prediction. The values of
    the target in other rows are never read.

    Attributes:
        target: column to predict, such as ``customers.churn``.
        task_type: ``regression`` predicts a number, ``classification`` classes; ``auto`` chooses by
            the values; see :class:`~edgewise.app.kinds.molecules.MoleculeTable`.
        primary_keys: columns such as ``customers.customer_id``, or ``weather.origin+hour`` for a
            key of two columns; empty uses those that the database declares, or finds columns of
            distinct values named id, TABLE_id or the like.
        foreign_keys: references such as ``orders.customer_id=customers``; empty uses those that the
            database declares, or finds columns with the name of a primary key. "none" uses none.
        dangling: a foreign key without its row is an ``error``, or read as ``missing``.
        times: column with the time at which a row became known, such as ``orders.placed_at``, for
            each table with times; empty uses the only column of dates of each table, or one with a
            usual name. "none" uses none.
        omit: columns that are not read, such as ``customers.closed_at``.
        hops: number of keys in a row that are followed from the row to predict, in both directions.
        children: maximum number of rows that refer to a row by one key and are visible, the latest
            ones.
        cells: maximum number of cells per row to predict; the nearest rows are read.
        split: ``time`` tests on the latest rows and validates on the latest of the other rows;
            ``random`` assigns rows at random; ``auto`` chooses ``time`` if the table of the target
            has a time column.
        folds, fold, val, split_seed: see :class:`~edgewise.app.train.folds.Folds`.
        batch_size: rows to predict per batch.
    """

    section = "Tables with keys"

    target: str = ""
    task_type: TaskType = "auto"
    primary_keys: tuple[str, ...] = ()
    foreign_keys: tuple[str, ...] = ()
    dangling: Dangling = "error"
    times: tuple[str, ...] = ()
    omit: tuple[str, ...] = ()
    hops: int = 2
    children: int = 16
    cells: int = 256
    split: By = "auto"
    folds: int = 5
    fold: int = 0
    val: float = 0.1
    split_seed: int = 0
    batch_size: int = 64

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width", "num_columns", "num_values")

    def __post_init__(self) -> None:
        check_choice("data.task_type", self.task_type, get_args(TaskType))
        check_choice("data.split", self.split, get_args(By))
        check_choice("data.dangling", self.dangling, get_args(Dangling))
        usual = {"hops": 2, "children": 16, "cells": 256, "batch_size": 64}
        for name, value in usual.items():
            remedy = f"choose for example {value}"
            least = 0 if name == "hops" else 1
            check_range(f"data.{name}", getattr(self, name), remedy, least=least, integer=True)
        self._folds()

    @abstractmethod
    def database(self) -> Database:
        """Return the tables."""

    def _folds(self) -> Folds:
        return Folds(self.folds, self.fold, self.val, self.split_seed)

    def load(self) -> Splits:
        database = self.database()
        target = check_given("data.target", self.target, "a column to predict: customers.churn")
        database = replace(database, tables=self._without_omitted(database.tables))
        tables = database.tables
        name, column = column_of(tables, "data.target", target)
        table = tables[name]
        keys = find_keys(database, self.primary_keys, self.foreign_keys, self.times, (name, column))
        rows = Rows(tables, keys, self.dangling)
        for key, link in zip(keys.foreign, rows.links, strict=True):
            if not len(link.child):  # A key without any row is not dangling, but wrong.
                references(tables, keys, key, "error")
        note_keys(keys, database, rows.depths)
        columns = find_columns(tables, keys, (name, column))
        is_missing = missing_cells(table, column, self.task_type)
        labelled = torch.tensor(np.flatnonzero(np.logical_not(is_missing)))
        if not len(labelled):
            raise ArgumentError(
                "data.target",
                expected=f"a value of {target} in some rows",
                got=f"none in {len(table):,} rows",
                remedy="add values, or name another column",
            )
        values = TargetColumns(table, [column], self.task_type)
        draft = EncodedRows(rows, columns, target)
        seeds = labelled.numpy() + rows.first[name]
        cutoff = draft.cutoff(seeds)
        how: How = "time" if self.split != "random" and np.isfinite(cutoff).all() else "random"
        if self.split == "time" and how != "time":
            raise ArgumentError(
                "data.split",
                expected=f"a time column of {name!r} for a split by time",
                got="none",
                remedy=f"name it with --data.times {name}.COLUMN, or choose random",
            )
        with naming(table.path):
            index = self._folds().split(how, cutoff.tolist())
        targets = values.describe(values.values[labelled[index["train"]]])
        visible = self._visible(draft, seeds[index["train"].numpy()])
        columns = list(fitted(columns, rows.parsed, visible))
        encoded = EncodedRows(rows, columns, target)
        scale = TargetScale.of(targets)

        def split(name: str) -> Split:
            members = index[name]

            def make(indices: Tensor) -> Batch:
                examples = members[indices]
                y = values.values[labelled[examples]]
                return self.batch_of(encoded, seeds[examples.numpy()], y)

            return Split(len(members), make, scale if name == "train" else None)

        arguments = {
            "in_width": 2,
            "out_width": sum(t.width for t in targets),
            "num_columns": encoded.num_columns,
            "num_values": encoded.num_values,
        }
        return Splits(
            arguments,
            split("train"),
            split("val"),
            split("test"),
            self.batch_size,
            preprocessing={
                "target": target,
                "schema": [column.record() for column in columns],
                "keys": keys._asdict(),
            },
            targets=targets,
        )

    def _without_omitted(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        omitted: dict[str, list[str]] = {}
        for text in self.omit:
            name, column = column_of(tables, "data.omit", text)
            omitted.setdefault(name, []).append(column)
        frames = {name: tables[name].frame.drop(columns=names) for name, names in omitted.items()}
        return {
            **tables,
            **{name: replace(tables[name], frame=frame) for name, frame in frames.items()},
        }

    def _visible(self, draft: EncodedRows, seeds: Integers) -> dict[str, Integers]:
        """Return the rows of each table that are visible to some of the seeds."""
        is_visible = np.zeros(len(draft.rows), dtype=bool)
        for chunk in np.array_split(seeds, max(1, len(seeds) // 512)):
            is_visible[self.cells_of(draft, chunk).row] = True
        return {
            name: np.flatnonzero(is_visible[draft.rows.rows_of(name)]) for name in draft.rows.tables
        }

    def cells_of(self, database: EncodedRows, rows: Integers) -> CellBatch:
        """Return the cells that are visible to rows of the target's table."""
        return database.batch(rows, hops=self.hops, max_children=self.children, cells=self.cells)

    def batch_of(self, database: EncodedRows, rows: Integers, target: Tensor) -> Batch:
        """Return a batch of rows to predict."""
        x, cells, graph, sizes, _ = self.cells_of(database, rows)
        keywords = {"batch": sizes}
        return RelationalBatch(
            (x, cells, graph), target, keywords=keywords, database=database, rows=rows
        )

    def encoded(
        self, database: Database, preprocessing: Mapping[str, Any], argument: str
    ) -> EncodedRows:
        """Return another database, encoded by the columns and keys of the training database."""
        keys = Keys.read(preprocessing["keys"])
        columns = [Column.read(record) for record in preprocessing["schema"]]
        check_tables(database.tables, columns, argument)
        names = {column.table for column in columns}
        tables = {name: table for name, table in database.tables.items() if name in names}
        for table, column in (*keys.columns(), *keys.times.items()):
            tables[table].check_column(argument, column)
        rows = Rows(tables, keys, self.dangling)
        return EncodedRows(rows, columns, preprocessing["target"])


@dataclass(frozen=True)
class Tables(RelationalData):
    """A folder of tables, an SQLite file, or a database server.

    Attributes:
        path: folder with one CSV or Parquet file for each table, an SQLite file (``.db``,
            ``.sqlite``), or a URL of SQLAlchemy without a password, such as
            ``postgresql+psycopg://host/shop``.

    Example:
        >>> from edgewise.app.kinds.tables import Tables
        >>> splits = Tables(path="shop", target="customers.churned").load()  # doctest: +SKIP
    """

    path: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))
        super().__post_init__()

    def database(self) -> Database:
        what = "a folder of tables, an SQLite file, or the URL of a database"
        return read_database(check_given("data.path", self.path, what))


@dataclass(frozen=True)
class Shop(RelationalData):
    """Generated database of a shop: customers, their orders, and products.

    A customer has left (``churned``) with a probability that depends on the defects of the products
    in the latest orders, which are two keys away, on the number of orders, and a little on the
    customer's region. Customers who have not left order again after the date ``as_of`` of the
    question, so a model that saw later rows would always be right.

    Attributes:
        customers: number of customers.
        shop_seed: random seed of the shop.

    Example:
        >>> from edgewise.app.kinds.tables import Shop
        >>> splits = Shop(customers=100).load()
        >>> splits.train.count + splits.val.count + splits.test.count
        100
    """

    target: str = "customers.churned"
    customers: int = 3000
    shop_seed: int = 0

    comes_with = "Edgewise"

    def __post_init__(self) -> None:
        check_range("data.customers", self.customers, "choose for example 3000", least=20)
        super().__post_init__()

    def database(self) -> Database:
        return Database("the shop", shop_tables(self.customers, self.shop_seed))

    def write(self, folder: str | Path) -> None:
        """Write the tables to a folder as CSV files."""
        write_tables(folder, shop_tables(self.customers, self.shop_seed))
