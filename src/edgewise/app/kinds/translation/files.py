"""Sequence-to-sequence learning on the user's own pairs of texts: a table, or two text files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.frames import FrameSource
from edgewise.app.files.read_table import read_table
from edgewise.app.files.reading import read_own_lines
from edgewise.app.files.table import Table
from edgewise.app.kinds.translation.data import Lines, PairSplits, TextPairs, read_parallel
from edgewise.app.train.text.own_files import OwnFiles, check_filled


@dataclass(frozen=True)
class PairTable(TextPairs, OwnFiles):
    """Table with a source text and a target text in each row, or two files with one text per line.

    With two files (``path`` and ``target_path``), validation and test texts are held out from them.
    To give validation and test texts as pairs of files too, use :class:`Parallel`.

    Attributes:
        source: column of source texts (encoder inputs); by default the first of two columns.
        target: column of target texts (to generate); by default the second of two columns.
        header: whether the first row names the columns; ``None`` assumes a header if each cell of
            the first row is a single word. Without a header, the columns are named ``source`` and
            ``target`` if there are two, otherwise 1, 2, ...
        target_path: file with one target text per line; ``path`` then has one source per line.

    Example:
        >>> import pandas as pd
        >>> from edgewise.app.kinds.translation import PairTable
        >>> rows = [(f"{i} plus 1", str(i + 1)) for i in range(40)]
        >>> numbers = pd.DataFrame(rows, columns=["source", "target"])
        >>> splits = PairTable(path=numbers, vocab_size=40).load()
        >>> splits.train.count, splits.val.count, splits.test.count
        (33, 3, 4)
    """

    source: str = ""
    target: str = ""
    header: bool | None = None
    target_path: str = ""

    def read_splits(self) -> PairSplits:
        files = self.files("a table of two columns of texts")
        if self.target_path:
            read = {"train": list(zip(*self._two_files(files), strict=True))}
            return PairSplits(self._splits(read), "source")
        tables = {split: read_table(path) for split, path in files.items()}
        names = self._names(tables["train"])
        if names:
            tables = {split: table.without_header(names) for split, table in tables.items()}
        source, target = self._columns(tables["train"])
        for table in tables.values():
            for argument, column in (("data.source", source), ("data.target", target)):
                table.texts(argument, column)
            check_filled(table, (source, target))
        read = {
            split: [
                (text.strip(), translation.strip())
                for text, translation in zip(
                    table.columns[source], table.columns[target], strict=True
                )
            ]
            for split, table in tables.items()
        }
        return PairSplits(self._splits(read), source)

    def _splits(self, read: dict[str, list[tuple[str, str]]]) -> dict[str, Lines]:
        return {
            split: ([source for source, _ in pairs], [target for _, target in pairs])
            for split, pairs in self.split_examples(read).items()
        }

    def _two_files(self, files: dict[str, Path | FrameSource]) -> Lines:
        if len(files) > 1:
            raise ArgumentError(
                "data.val_path, data.test_path",
                expected="no validation and test files if data.target_path is set",
                got=", ".join(str(path) for split, path in files.items() if split != "train"),
                remedy="omit data.val_path and data.test_path (pairs are then held out from the "
                "file of data.path), or use data.parallel in Python",
            )
        target = Path(self.target_path).expanduser()
        return read_parallel(Path(files["train"]), target, read=read_own_lines)

    def _names(self, table: Table) -> list[str]:
        """Return names for the columns if the first row is not a header, else an empty list."""
        first = list(table.columns)
        if table.named:
            return []
        headed = self.header
        if headed is None:
            headed = any(name in first for name in (self.source, self.target))
            headed = headed or all(name.isidentifier() for name in first)
        if headed:
            return []
        if len(first) == 2:
            return ["source", "target"]
        return [str(number) for number in range(1, len(first) + 1)]

    def _columns(self, table: Table) -> tuple[str, str]:
        names = list(table.columns)
        source, target = self.source, self.target
        if len(names) == 2 and not source and not target:
            return names[0], names[1]
        left = [name for name in names if name != target]
        source = table.choose("data.source", source, left, "the column of source texts")
        left = [name for name in names if name != source]
        return source, table.choose(
            "data.target", target, left, "the column of target texts", [source]
        )
