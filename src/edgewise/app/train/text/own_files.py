"""Base class of text data sets read from the user's files."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from edgewise._utils.arguments import check_given
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.files import naming, unreadable
from edgewise.app.files.frames import FrameSource, Source, open_source, take_frames
from edgewise.app.files.table import Table
from edgewise.app.train.folds import Folds, How
from edgewise.app.train.text.text_data import TextData

T = TypeVar("T")


@dataclass(frozen=True)
class OwnFiles(TextData, ABC):
    """Base class of text data sets read from the user's files, split by cross-validation.

    Attributes:
        path: file or data frame.
        val_path, test_path: optional files of the same form for validation and test.
        folds, fold, val, split_seed: see :class:`~edgewise.app.train.folds.Folds`; used for the
            splits for which no file is given.
        kind, vocab_size, lowercase, tokenizer, batch_size: see :class:`TextData`.
    """

    path: Source = ""
    val_path: Source = ""
    test_path: Source = ""
    folds: int = 10
    fold: int = 0
    val: float = 0.1
    split_seed: int = 0

    def __post_init__(self) -> None:
        take_frames(self, "path", "val_path", "test_path")
        super().__post_init__()
        self._folds()
        if self.test_path and self.fold:
            raise ArgumentError(
                "data.fold",
                expected="0, because data.test_path replaces the test fold",
                got=str(self.fold),
                remedy="omit data.fold or data.test_path",
            )

    def _folds(self) -> Folds:
        return Folds(self.folds, self.fold, self.val, self.split_seed)

    def files(self, what: str) -> dict[str, Path | FrameSource]:
        """Return the files that are given, by split; ``what`` describes them in the error."""
        check_given("data.path", self.path, what)
        sources = {"train": self.path, "val": self.val_path, "test": self.test_path}
        return {split: open_source(path) for split, path in sources.items() if path}

    def split_examples(
        self, read: dict[str, list[T]], keys: Sequence[str] | None = None
    ) -> dict[str, list[T]]:
        """Return the examples of each split, stratified by ``keys``."""
        train = read["train"]
        how: How = "random" if keys is None else "stratified"
        with naming(self.path):
            split = self._folds().split(how, keys or range(len(train)), set(read) - {"train"})
        examples = {name: [train[i] for i in index.tolist()] for name, index in split.items()}
        return {name: examples.get(name, read.get(name, [])) for name in ("train", "val", "test")}


def check_filled(table: Table, columns: Sequence[str]) -> None:
    """Raise ArgumentError if a row has a blank value in one of these columns."""
    for column in columns:
        for line, value in zip(table.lines, table.columns[column], strict=True):
            if not value.strip():
                raise unreadable(
                    table.path,
                    expected=f"a text in each row of column {column!r}",
                    got="none",
                    line=line,
                    remedy="correct or drop this row",
                )
