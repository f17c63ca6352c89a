"""Column of a table that assigns rows to the training, validation and test split."""

from __future__ import annotations

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


def parts_of(table: Table, column: str) -> dict[str, Tensor]:
    """Return the indices of the rows of each split; a split may be empty."""
    texts = table.texts("data.split_column", column)
    index: dict[str, list[int]] = {name: [] for name in PARTS}
    for row, text in enumerate(texts):
        split = _split_of(text)
        if split not in index:
            raise ArgumentError(
                "data.split_column",
                expected=f"train, val or test in column {column!r}",
                got=f"{text[:60]!r} in row {table.line(row)} of {table.path.name}",
                remedy="correct this row, or set data.split_column to none",
            )
        index[split].append(row)
    return {name: torch.tensor(rows, dtype=torch.long) for name, rows in index.items()}


def _split_of(text: str) -> str:
    word = text.strip().lower()
    return "test" if word == "holdout" else PART_OF.get(word, "")
