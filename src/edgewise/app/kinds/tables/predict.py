"""Predictor for rows of a database: numbers, and classes with their probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from edgewise._utils.errors import ArgumentError, unknown_name
from edgewise.app.files.table import is_missing
from edgewise.app.kinds.tables.context import CellBatch, EncodedRows
from edgewise.app.kinds.tables.data import RelationalData
from edgewise.app.kinds.tables.files import read_database
from edgewise.app.predict.predictor import Answer
from edgewise.app.predict.properties import Properties


class DatabaseRow(NamedTuple):
    """Row to predict, by its index among all rows of a database."""

    database: EncodedRows
    row: int


class RowProperties(Properties):
    """Property of the rows of a table: those whose target is blank, or all if none is blank."""

    data, input = RelationalData, "a folder of tables or a database, and keys of rows"
    ensembles = True

    def set_up(self) -> None:
        super().set_up()
        assert isinstance(self.recipe.data, RelationalData)
        self.tables = self.recipe.data

    def columns(self) -> tuple[str, ...]:
        return ("database",)

    def from_words(self, words: Sequence[str]) -> Iterator[DatabaseRow]:
        """Yield rows of the database that the first word names, those with the other words as
        keys.
        """
        yield from self.rows_of(words[0], words[1:])

    def from_python(self, inputs: Any) -> Iterable[Any]:
        if isinstance(inputs, str):
            return self.rows_of(inputs)
        return super().from_python(inputs)

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        for value in self.rows_of(str(path)):
            yield None, {"input": self.show(value)}, value

    def rows_of(self, path: str, names: Sequence[str] = ()) -> Iterator[DatabaseRow]:
        """Yield the rows to predict of a database, or those with the given primary keys.

        Raises:
            ArgumentError: a table or column of the training database is missing, or there is no
                such key.
        """
        values = self.preprocessing.values
        encoded = self.tables.encoded(read_database(path, "input"), values, "input")
        name, rows = encoded.target, encoded.rows
        table = rows.tables[name]
        indices = list(range(len(table)))
        if names:
            index_of = {rows.key(rows.first[name] + i): i for i in indices}
            for key in names:
                if key not in index_of:
                    raise unknown_name("input", key, index_of)
            indices = [index_of[key] for key in names]
        elif self.targets[0].name in table.columns:
            cells = table.columns[self.targets[0].name]
            indices = [i for i in indices if is_missing(cells[i])] or indices
        for i in indices:
            yield DatabaseRow(encoded, rows.first[name] + i)

    def prepare(self, value: Any) -> DatabaseRow:
        if isinstance(value, DatabaseRow):
            return value
        raise ArgumentError(
            "input",
            expected="the path of a database",
            got=repr(value)[:60],
            remedy="pass one path or URL as text, not a list, or a row of predictor.rows_of",
        )

    def answer(self, examples: list[DatabaseRow], *, interval: float = 0.0) -> list[Answer]:
        outputs = []
        for _, members in groupby(examples, lambda example: id(example.database)):
            group = list(members)
            rows = np.array([example.row for example in group])
            batch = self.tables.batch_of(group[0].database, rows, torch.empty(0))
            outputs.append(self.called(*batch.inputs, **batch.keywords))
        first, members_outputs = zip(*outputs, strict=True)
        joined = None if members_outputs[0] is None else torch.cat(members_outputs, dim=1)
        return self.described(torch.cat(first), joined, interval)

    def show(self, value: Any) -> str:
        if isinstance(value, DatabaseRow):
            return value.database.rows.describe(value.row)
        return super().show(value)

    def visible_cells(self, value: DatabaseRow) -> CellBatch:
        """Return the cells that the model reads for a row."""
        return self.tables.cells_of(value.database, np.array([value.row]))

    def node_labels(self, value: Any) -> tuple[list[str], int | None]:
        example = self.prepare(value)
        return example.database.cell_names(self.visible_cells(example)), None
