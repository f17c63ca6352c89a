"""Column of a table that assigns rows to the training, validation and test split."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.table import Table

NAMES = ("split", "set", "subset", "partition", "part")
"""Usual names of the column that assigns rows to splits, if it is not given."""
PARTS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
PART_OF = {word: part for part, words in PARTS.items() for word in words}
"""Dict from a word in a table, or the name of a folder, to its split: train, val or test."""


def find_split_column(table: Table, column: str) -> str:
    """Return the column that assigns rows to splits, or "". An empty name searches for one of
    :data:`NAMES` whose cells are all words of :data:`PARTS`; "none" uses no column.
    """
    if column == "none":
        return ""
    if column:
        table.texts("data.split_column", column)
        return column
    usual = [
        name
        for name, texts in table.columns.items()
        if name.lower() in NAMES and {"train", "test"} <= set(map(_split_of, texts)) <= set(PARTS)
    ]
    return usual[0] if len(usual) == 1 else ""


def split_names(
    table: Table, argument: str, column: str, *, allow_blank: bool = False
) -> list[str]:
    """Return the split of each row: train, val or test, or "" for a blank cell if allowed."""
    texts = table.texts(argument, column)
    names = list(map(_split_of, texts))
    for row, (text, name) in enumerate(zip(texts, names, strict=True)):
        if not name and not (allow_blank and not text.strip()):
            raise ArgumentError(
                argument,
                expected=f"train, val, test{' or a blank cell' * allow_blank} in column {column!r}",
                got=table.cell(column, row),
                remedy=f"correct this row, or name another column with --{argument}",
            )
    return names


def parts_of(table: Table, column: str) -> dict[str, Tensor]:
    """Return the indices of the rows of each split; a split may be empty."""
    names = np.array(split_names(table, "data.split_column", column))
    return {split: torch.from_numpy((names == split).nonzero()[0]) for split in PARTS}


def _split_of(text: str) -> str:
    word = text.strip().lower()
    return "test" if word == "holdout" else PART_OF.get(word, "")
