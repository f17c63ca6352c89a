"""Text classification of any table with a column of texts and one of labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from edgewise.data.files import unreadable
from edgewise.data.tables.frames import FrameSource
from edgewise.data.tables.read import read_table
from edgewise.data.tables.table import Table
from edgewise.data.text.labelled_sentences import Labelled, LabelledParts, LabelledSentences
from edgewise.data.text.own_files import OwnFiles, check_filled
from edgewise.errors import ArgumentError

TEXTS = ("text", "sentence", "review", "comment", "message", "content")
LABELS = ("label", "class", "category", "sentiment", "target")
"""What people call the two columns."""
MOST = 1000  # labels; whoever has more wants something else
WORDS = 3.0  # a text has so many, in the mean


class Columns(NamedTuple):
    """The columns of texts and labels, and the names of all where the first row is none of them."""

    text: str
    label: str
    given: tuple[str, str] | None = None


@dataclass(frozen=True)
class TextTable(LabelledSentences, OwnFiles):
    """Texts and labels, a row each: CSV, TSV or another delimiter, plain or packed.

    A table of two columns needs no header: its first row is read as one, unless its label is found
    again below.

    Attributes:
        text: the column of the texts; guessed where there is no doubt.
        label: the column of the labels, which are numbers or names; likewise.
        max_length: the most tokens that are kept of a text.
        path, val_path, test_path, folds, fold, val, split_seed: see :class:`OwnFiles`. Each fold
            has its share of every label.
        packed, word_dropout: see :class:`LabelledText`.
        kind, vocab_size, lowercase, tokenizer, batch_size: see :class:`TextData`.
    """

    max_length: int = 256
    text: str = ""
    label: str = ""

    def parts(self) -> LabelledParts:
        files = self.files("a table of texts and labels")
        tables = {split: read_table(path) for split, path in files.items()}
        columns = find_columns(tables["train"], self.text, self.label)
        read = {split: labelled_rows(table, columns) for split, table in tables.items()}
        labels = [label for _, label in read["train"]]
        _check_classes(labels, columns.label, files["train"])
        parts = self.dealt(read, labels)
        where = {split: str(files.get(split, files["train"])) for split in parts}
        return LabelledParts(parts, where, columns.text)


def find_columns(table: Table, text: str, label: str) -> Columns:
    """The columns of texts and labels: those that are named, or the only ones they can be.

    Args:
        table: of them.
        text: its name; "" guesses.
        label: likewise.

    Raises:
        ArgumentError: there is no such column, or several can be meant, which are listed.
    """
    names = list(table.columns)
    if len(names) == 1:
        raise unreadable(
            table.path,
            expected="a column of texts and one of labels",
            got=f"one column, {names[0][:60]!r}",
            remedy="separate texts and labels by a comma or a tab; texts with commas need quotes",
        )
    for argument, column in (("data.text", text), ("data.label", label)):
        if column:
            table.texts(argument, column)
    if len(names) == 2 and not text and not label and not table.named:
        few, many = sorted(names, key=lambda name: len(set(table.columns[name])))
        if few in table.columns[few]:
            given = ("text", "label") if names[0] == many else ("label", "text")
            return Columns("text", "label", given)
    by_name = {name.lower(): name for name in names}
    text = text or next((by_name[n] for n in TEXTS if n in by_name and by_name[n] != label), "")
    label = label or next((by_name[n] for n in LABELS if n in by_name and by_name[n] != text), "")
    could_be_labels = [n for n in names if n != text and _are_labels(table.columns[n])]
    could_be_texts = [n for n in names if n != label and _are_texts(table.columns[n])]
    if len(names) == 2 and not (text and label):
        if text or label:
            could_be_labels = [n for n in names if n != text]
            could_be_texts = [n for n in names if n != label]
        elif len(could_be_labels) == 1:
            could_be_texts = [n for n in names if n not in could_be_labels]
    text = table.choose("data.text", text, could_be_texts, "the column of texts")
    left = [n for n in could_be_labels if n != text]
    return Columns(text, table.choose("data.label", label, left, "the column of labels", [text]))


def _are_labels(values: list[str]) -> bool:
    """Whether they come again and again."""
    distinct = len(set(values))
    return distinct <= MOST and distinct <= max(2, len(values) / 4)


def _are_texts(values: list[str]) -> bool:
    return sum(len(value.split()) for value in values) >= WORDS * len(values)


def labelled_rows(table: Table, columns: Columns) -> Labelled:
    """Text and label of each row.

    Raises:
        ArgumentError: a column is missing, or a value; names the row.
    """
    if columns.given:
        table = table.without_header(columns.given)
    texts = table.texts("data.text", columns.text)
    labels = table.texts("data.label", columns.label)
    check_filled(table, (columns.text, columns.label))
    return [(text.strip(), label.strip()) for text, label in zip(texts, labels, strict=True)]


def _check_classes(labels: list[str], column: str, file: Path | FrameSource) -> None:
    distinct = len(set(labels))
    if distinct == 1:
        raise ArgumentError(
            "data.label",
            expected=f"at least two labels in column {column!r} of {file.name}",
            got=f"{labels[0]!r} in each of {len(labels)} rows",
            remedy="add texts with another label, or name another column with --data.label",
        )
    if not 2 <= distinct <= MOST or (distinct > 2 and distinct > len(labels) / 2):
        raise ArgumentError(
            "data.label",
            expected="labels, of which each is that of several texts",
            got=f"{distinct} different values in {len(labels)} rows of {column!r} in {file.name}",
            remedy="name the column of the labels with --data.label, or put numbers into a few "
            "classes, such as low and high",
        )
