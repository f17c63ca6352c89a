"""Text classification: sentences of film reviews, and a table of texts and labels of the user."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, get_args

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.files import unreadable
from edgewise.app.files.frames import FrameSource
from edgewise.app.files.label_lists import find_separator, label_columns
from edgewise.app.files.read_table import read_table
from edgewise.app.files.reading import raw_texts
from edgewise.app.files.table import Table
from edgewise.app.files.target_columns import (
    TargetColumns,
    TaskType,
    note_target,
    target_names,
    warn_misread,
)
from edgewise.app.kinds.texts.data import LabelledSentences, LabelledSplits
from edgewise.app.train.text.labelled import Labelled
from edgewise.app.train.text.own_files import OwnFiles, check_filled

TEXTS = ("text", "sentence", "review", "comment", "message", "content")
LABELS = ("label", "labels", "class", "category", "sentiment", "target")
"""Usual names of the column of texts and of the column of labels."""
ARGUMENT = "data.target"
MOST = 1000  # Maximum number of labels.
WORDS = 3.0  # Minimum mean number of words per cell in a column of texts.


class Columns(NamedTuple):
    """Names of the text and label columns; if the table has no header, of both in their order."""

    text: str
    label: str
    header: tuple[str, str] | None = None


@dataclass(frozen=True)
class TextTable(LabelledSentences, OwnFiles):
    """Table with a text and its labels in each row.

    A text has one label, or several labels that are predicted separately. Several labels are in
    columns of their own, which may have blank cells, or in one column with several labels in a
    cell. A table of two columns needs no header: the first row is data if its label occurs in
    another row. Folds are stratified if a text has one label, and otherwise random.
    :func:`edgewise.app.files.read_table.read_table` lists the formats.

    Attributes:
        text: text column; "" finds the column.
        target: label column; "" finds the column. Labels may be numbers or names. Several columns,
            such as ``toxic,threat``, are predicted together, and a row may lack some of them.
        separator: separator of several labels in a cell, such as ``|``; "" detects ``|``, ``;``,
            ``,`` or JSON arrays, and "none" reads each cell as one label. A blank cell has no
            label.
        task_type: ``regression`` predicts the numbers in the label columns. ``auto`` predicts the
            classes of a single label column; with several, it predicts numbers for the columns that
            do not hold classes.
        max_length: maximum number of tokens of a text; longer texts are truncated.

    Example:
        >>> import pandas as pd
        >>> from edgewise.app.kinds.texts import TextTable
        >>> rows = [(f"film {i} was {word}", word) for i in range(20) for word in ("good", "bad")]
        >>> table = pd.DataFrame(rows, columns=["text", "label"])  # or the path of a CSV file
        >>> splits = TextTable(path=table).load()
        >>> splits.model_arguments["vocab_size"] > 20
        True
    """

    max_length: int = 256
    text: str = ""
    target: str | tuple[str, ...] = ""
    separator: str = ""
    task_type: TaskType = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("data.task_type", self.task_type, get_args(TaskType))

    def read_splits(self) -> LabelledSplits:
        files = self.files("a table of texts and labels")
        tables = {split: read_table(path) for split, path in files.items()}
        where = {split: str(files.get(split, files["train"])) for split in ("train", "val", "test")}
        train = tables["train"]
        names = target_names(train, self.target, (), argument=ARGUMENT) if self.target else []
        if len(names) > 1:
            text = text_column(train, self.text, names)
            return self._several(tables, text, names, where)
        columns = find_columns(train, self.text, "".join(names))
        separator = self.separator.replace("none", "")
        if not self.separator and not columns.header:
            separator = find_separator(train.columns[columns.label])
        if separator or self.task_type == "regression":
            names = [columns.label]
            if columns.header:
                tables = {n: table.without_header(columns.header) for n, table in tables.items()}
            return self._several(tables, columns.text, names, where, separator)
        read = {split: labelled_rows(table, columns) for split, table in tables.items()}
        labels = [label for _, label in read["train"]]
        _check_classes(labels, columns.label, files["train"])
        if self.task_type == "auto" and not columns.header:
            warn_misread(train, columns.label, sorted(set(labels)), ARGUMENT)
        return LabelledSplits(self.split_examples(read, labels), where, columns.text)

    def _several(
        self,
        tables: Mapping[str, Table],
        text: str,
        names: list[str],
        where: dict[str, str],
        separator: str = "",
    ) -> LabelledSplits:
        """Return the texts with the values of several target columns, or of one to separate."""
        train: TargetColumns | None = None
        read: dict[str, Labelled] = {}
        for split, table in tables.items():  # The training table is the first.
            check_filled(table, (text,))
            cells, cell_names = table, names
            classes = train.classes if train else None
            if separator:
                train_labels = train.names if train else ()
                cells = label_columns(table, names[0], separator, ARGUMENT, train_labels)
                cell_names = list(cells.columns)
                classes = [("0", "1")] * len(cell_names)
            columns = TargetColumns(
                cells, cell_names, self.task_type, argument=ARGUMENT, classes=classes
            )
            train = train or columns
            texts = (cell.strip() for cell in table.texts("data.text", text))
            read[split] = list(zip(texts, columns.values.tolist(), strict=True))
        return LabelledSplits(self.split_examples(read), where, text, train)


def text_column(table: Table, text: str, taken: Collection[str]) -> str:
    """Return the column of texts: the named column, or the only possible one."""
    free = {name.lower(): name for name in table.columns if name not in taken}
    usual = text or next((free[name] for name in TEXTS if name in free), "")
    likely = [name for name in free.values() if _are_texts(table.columns[name])]
    column = table.choose("data.text", usual, likely, "the column of texts", taken, of_words=True)
    if not text:
        _check_words(table, column)
    return column


def _check_words(table: Table, column: str) -> None:
    """Raise ArgumentError if a column that the user has not named holds numbers, not texts."""
    if column in table.numeric:
        raise ArgumentError(
            "data.text",
            expected=f"a column of texts in {table.path.name}",
            got=f"only numbers in column {column!r}",
            remedy="add a column of texts; to read these numbers as texts, name their column with "
            "--data.text",
        )


def find_columns(table: Table, text: str, label: str) -> Columns:
    """Return the text and label columns: the named columns, or the only possible columns."""
    names = list(table.columns)
    if len(names) == 1:
        raise unreadable(
            table.path,
            expected="a text column and a label column",
            got=f"one column, {names[0][:60]!r}",
            remedy="separate columns by commas or tabs, and put texts with commas in double quotes",
        )
    for argument, column in (("data.text", text), ("data.target", label)):
        if column:
            table.texts(argument, column)
    if len(names) == 2 and not text and not label and not table.named:
        labels, texts = sorted(names, key=lambda name: len(set(table.columns[name])))
        if labels in table.columns[labels]:
            _check_words(table, texts)
            header = ("text", "label") if names[0] == texts else ("label", "text")
            return Columns("text", "label", header)
    by_name = {name.lower(): name for name in names}
    text_is_named, label_is_named = bool(text), bool(label)
    text = text or next((by_name[n] for n in TEXTS if n in by_name and by_name[n] != label), "")
    label = label or next((by_name[n] for n in LABELS if n in by_name and by_name[n] != text), "")
    reason = "because of its name" if label else "the only column with few different values"
    could_be_labels = [n for n in names if n != text and _are_labels(table.columns[n])]
    could_be_texts = [n for n in names if n != label and _are_texts(table.columns[n])]
    if len(names) == 2 and not (text and label):
        if text or label:
            could_be_labels = [n for n in names if n != text]
            could_be_texts = [n for n in names if n != label]
        elif len(could_be_labels) == 1:
            could_be_texts = [n for n in names if n not in could_be_labels]
    text = table.choose("data.text", text, could_be_texts, "the column of texts", of_words=True)
    if not text_is_named:
        _check_words(table, text)
    left = [n for n in could_be_labels if n != text]
    label = table.choose("data.target", label, left, "the column of labels", [text])
    if not label_is_named:
        note_target(label, reason)
    return Columns(text, label)


def _are_labels(values: list[str]) -> bool:
    """Return whether a column looks like labels: few distinct values, most of them repeated."""
    distinct = len(set(values))
    return distinct <= MOST and distinct <= max(2, len(values) / 4)


def _are_texts(values: list[str]) -> bool:
    return sum(len(value.split()) for value in values) >= WORDS * len(values)


def labelled_rows(table: Table, columns: Columns) -> Labelled:
    """Return the text and label of each row; an error for a blank cell names the row."""
    if columns.header:
        table = table.without_header(columns.header)
    texts = table.texts("data.text", columns.text)
    labels = table.texts("data.target", columns.label)
    check_filled(table, (columns.text, columns.label))
    return [(text.strip(), label) for text, label in zip(texts, labels, strict=True)]


def _check_classes(labels: list[str], column: str, file: Path | FrameSource) -> None:
    distinct = len(set(labels))
    if distinct == 1:
        raise ArgumentError(
            "data.target",
            expected=f"at least two labels in column {column!r} of {file.name}",
            got=f"{labels[0]!r} in each of {len(labels)} rows",
            remedy="add texts with other labels, or name another column with --data.target",
        )
    if not 2 <= distinct <= MOST or (distinct > 2 and distinct > len(labels) / 2):
        raise ArgumentError(
            "data.target",
            expected="labels that several texts share",
            got=f"{distinct} different values in {len(labels)} rows of {column!r} in {file.name}",
            remedy="name the label column with --data.target; predict numbers with "
            "--data.task_type regression, and several labels in a cell with --data.separator",
        )


@dataclass(frozen=True)
class SST2(LabelledSentences):
    """Stanford Sentiment Treebank with two classes (Socher et al., 2013).

    6920 training, 872 validation and 1821 test sentences; without the 67,000 labelled phrases that
    GLUE adds.

    Example:
        >>> from edgewise.app.kinds.texts import SST2
        >>> splits = SST2(naive_bayes=True).load()  # doctest: +SKIP
    """

    folders = ("SST2",)

    names: ClassVar[Mapping[str, str]] = {"0": "negative", "1": "positive"}

    def read_splits(self) -> LabelledSplits:
        at = "clairett/pytorch-sentiment-classification/457ffd83de90a9d6d472d8ffc31bbffe40a8b236"
        where = f"https://raw.githubusercontent.com/{at}/data/SST2"
        names = {"train": "train.tsv", "val": "dev.tsv", "test": "test.tsv"}
        texts = raw_texts("SST2", {file: f"{where}/{file}" for file in names.values()})
        splits: dict[str, Labelled] = {}
        for name, file in names.items():
            rows = (line.rsplit("\t", 1) for line in texts[file].removesuffix("\n").split("\n"))
            splits[name] = [(sentence.strip(), label.strip()) for sentence, label in rows]
        return LabelledSplits(splits, names)

    def training_texts(self) -> list[str]:
        """Return the texts of the training set."""
        return [text for text, _ in self.read_splits().texts["train"]]
