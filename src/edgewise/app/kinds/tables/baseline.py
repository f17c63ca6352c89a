"""Baselines of tables with keys: gradient-boosted trees on the table of the target, and on counts
and means that are joined by hand from the rows that refer to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from edgewise.app.kinds.tables.columns import Numbers, cells_of
from edgewise.app.kinds.tables.context import EncodedRows, Link
from edgewise.app.kinds.tables.data import RelationalBatch
from edgewise.app.kinds.tables.keys import Integers
from edgewise.app.train.baseline import Candidate, Score, batches_of
from edgewise.app.train.batches import Batch
from edgewise.app.train.column_baselines import columns_of, fit_columns
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.app.train.tree_baselines import LEAVES, boosted_trees

ALL = 2**31  # All rows that refer to a row, not only the latest.


def candidates(recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield trees on the row alone, then on the row with joined counts and means."""
    columns = columns_of(splits, recipe)
    loss = "log_loss" if columns[0].classes else "squared_error"
    for name, features in (("its own table", own_features), ("joined counts", joined_features)):
        read = cache(partial(_read, features, splits))
        for leaves in LEAVES:
            make = partial(boosted_trees, loss, leaves)
            fit = partial(_fitted, columns, read, make, features)
            yield Candidate(f"gradient-boosted trees on {name}", f"{leaves} leaves", fit)


Features = Callable[[Batch], np.ndarray]


def _read(features: Features, splits: Splits, name: str) -> tuple[np.ndarray, np.ndarray]:
    batches = list(batches_of(splits.train if name == "train" else splits.val))
    target = torch.cat([batch.target for batch in batches]).numpy()
    return np.concatenate([features(batch) for batch in batches]), target


def _fitted(columns: Any, read: Any, make: Any, features: Features) -> Score:
    (x, y), (val_x, val_y) = read("train"), read("val")
    has_values = ~np.isnan(x).all(axis=0)  # scikit-learn cannot bin a column of missing values.
    val = val_x[:, has_values], val_y
    outputs = fit_columns(make, columns, x[:, has_values], y, val)
    return lambda batch: outputs(features(batch)[:, has_values])


def table_features(database: EncodedRows, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features ``[rows, F]`` of a table, and whether each is a date ``[F]``: numbers and
    dates, NaN for missing ones, and an indicator of each category.
    """
    table = database.rows.tables[name]
    features, is_date = [np.empty((len(table), 0))], []
    for column in database.columns:
        if column.table != name or column.type == "row":
            continue
        cells = cells_of(database.rows.parsed, column)
        if column.type == "category":
            features.append(cells.codes[:, None] == np.arange(2, column.num_codes))
            is_date += [False] * len(column.values)
        else:
            features.append(cells.numbers[:, None])
            is_date.append(column.type == "date")
    return np.concatenate(features, axis=1), np.array(is_date, dtype=bool)


_CACHES: WeakKeyDictionary[EncodedRows, dict[str, Any]] = WeakKeyDictionary()
"""Arrays of each database, which do not keep it in memory."""


def _cached_features(database: EncodedRows, name: str) -> tuple[np.ndarray, np.ndarray]:
    cache = _CACHES.setdefault(database, {})
    if name not in cache:
        cache[name] = table_features(database, name)
    features: tuple[np.ndarray, np.ndarray] = cache[name]
    return features


def _cached_parents(database: EncodedRows, link: Link) -> Integers:
    """Return the row to which each row refers by a foreign key, -1 for none."""
    cache = _CACHES.setdefault(database, {})
    name = f"parents by {link.name}"
    if name not in cache:
        cache[name] = np.full(len(database.rows), -1)
        cache[name][link.child] = link.parent
    parents: Integers = cache[name]
    return parents


def own_features(batch: Batch) -> np.ndarray:
    """Return the features of the rows to predict, without any other row; the first one is 0."""
    assert isinstance(batch, RelationalBatch)
    assert batch.database is not None
    database = batch.database
    local = batch.rows - database.rows.first[database.target]
    # scikit-learn needs a feature, also for a table that has only keys.
    return np.pad(_cached_features(database, database.target)[0][local], ((0, 0), (1, 0)))


def joined_features(batch: Batch) -> np.ndarray:
    """Return the features of the rows to predict and of the visible rows to which they refer; and
    for each table that refers to them the number of visible rows, and mean, minimum and maximum of
    their features. Dates of these other rows are relative to the time of the row to predict, if it
    has one.
    """
    assert isinstance(batch, RelationalBatch)
    assert batch.database is not None
    database, rows = batch.database, batch.database.rows
    cutoff, count = database.cutoff(batch.rows), len(batch.rows)

    def features_of(name: str, others: Integers, index: Integers) -> Numbers:
        features, is_date = _cached_features(database, name)
        values: Numbers = features[others - rows.first[name]].astype(np.float64)
        if np.isfinite(cutoff).all():
            values[:, is_date] = cutoff[index][:, None] - values[:, is_date]
        return values

    joined = [own_features(batch)]
    for key, link in zip(rows.keys.foreign, rows.links, strict=True):
        if key.table == database.target:
            parent = _cached_parents(database, link)[batch.rows]
            index = np.flatnonzero((parent >= 0) & (rows.time[parent] <= cutoff))
            values = features_of(key.refers_to, parent[index], index)
            joined.append(np.full((count, values.shape[1]), np.nan))
            joined[-1][index] = values
        if key.refers_to == database.target:
            index, child = rows.children(link, batch.rows, cutoff, ALL)
            joined += _aggregates(features_of(key.table, child, index), index, count)
    return np.concatenate(joined, axis=1)


def _aggregates(values: Numbers, index: Integers, count: int) -> Iterator[Numbers]:
    """Yield number of rows, and mean, minimum and maximum of each feature, for each of ``count``
    rows; NaN without rows.
    """
    yield np.bincount(index, minlength=count)[:, None].astype(np.float64)
    is_present = ~np.isnan(values)
    for_row = np.zeros((3, count, values.shape[1]))
    for_row[1], for_row[2] = np.inf, -np.inf
    number = np.zeros((count, values.shape[1]))
    np.add.at(number, index, is_present)
    np.add.at(for_row[0], index, np.where(is_present, values, 0))
    np.minimum.at(for_row[1], index, np.where(is_present, values, np.inf))
    np.maximum.at(for_row[2], index, np.where(is_present, values, -np.inf))
    for_row[0] /= np.maximum(number, 1)
    for_row[:, number == 0] = np.nan
    yield from for_row
