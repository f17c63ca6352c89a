"""Tagging of words: English Web Treebank (EWT), and the user's CoNLL-U, lines or tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import get_args

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError, counted, unknown_name
from edgewise.app.files.files import unreadable
from edgewise.app.files.frames import FrameSource
from edgewise.app.files.read_table import form_of, is_table, read_table, table_rows
from edgewise.app.files.reading import raw_texts, read_own_text
from edgewise.app.files.target_columns import note_target
from edgewise.app.kinds.tags.conllu import COLUMNS, WIDTH, Tag, blocks, read_conllu, words_of_conllu
from edgewise.app.kinds.tags.data import TaggedSplits, TaggedWords
from edgewise.app.train.text.labelled import Labelled
from edgewise.app.train.text.own_files import OwnFiles, check_filled

WORDS = ("word", "token", "form")
TAGS = ("tag", "label", "pos", "upos", "ner")
SENTENCES = ("sentence", "sentence_id", "sent_id")
"""Usual names of the columns of words, tags and sentence numbers."""
START = "-DOCSTART-"
"""Line that begins a document in files of CoNLL-2003."""
BLANK_LINE = re.compile(r"\n[ \t]*\n")


@dataclass(frozen=True)
class TagFile(TaggedWords, OwnFiles):
    """File of words and tags.

    A table with a header has a word, its tag, and the number or name of its sentence in each row.
    Any other file, and a ``.tsv`` file with blank lines and no column of sentences, has one word
    per line and a blank line after each sentence. It is CoNLL-U, or each line has the word first
    and the tag last, separated by tabs or spaces, unless a header names their columns. Comments of
    CoNLL-U (``#``) and ``-DOCSTART-`` lines are ignored. Sentences are split at random.

    Attributes:
        target: tag column. In CoNLL-U it is ``upos`` (default), ``xpos`` or ``deprel``; below a
            header, "" finds it by its usual names.
        word: word column below a header; "" finds it by its usual names.
        sentence: column of a table with the number or name of each word's sentence; "" finds it by
            its usual names.

    Example:
        >>> import pandas as pd
        >>> from edgewise.app.kinds.tags import TagFile
        >>> words, tags = ["the", "cat", "sleeps"] * 20, ["DET", "NOUN", "VERB"] * 20
        >>> numbers = [i // 3 for i in range(60)]
        >>> table = pd.DataFrame({"word": words, "tag": tags, "sentence": numbers})
        >>> splits = TagFile(path=table, vocab_size=40).load()
        >>> splits.preprocessing["labels"]
        ['DET', 'NOUN', 'VERB']
    """

    target: str = ""
    word: str = ""
    sentence: str = ""

    def read_splits(self) -> TaggedSplits:
        files = self.files("a file of words and tags")
        read = {split: self._read(path) for split, path in files.items()}
        tags = {tag for sentence in read["train"] for _, tag in sentence}
        if len(tags) == 1:
            raise ArgumentError(
                "data.target",
                expected=f"at least two tags in {files['train'].name}",
                got=f"{tags.pop()!r} for all words",
                remedy="add sentences with other tags, or name another column with --data.target",
            )
        sentences = self.split_examples(read)
        return sentences, {split: str(files.get(split, files["train"])) for split in sentences}

    def _read(self, path: Path | FrameSource) -> list[Labelled]:
        if isinstance(path, FrameSource) or (is_table(path) and form_of(path) != ".tsv"):
            return self._read_table(path)
        text = read_own_text(path)
        first = _first_line(text)
        fields = _fields(first)
        words, sentences = (
            _position(fields, name, usual)
            for name, usual in ((self.word, WORDS), (self.sentence, SENTENCES))
        )
        is_numbered = words is not None and sentences is not None
        # Otherwise, a blank line before the end separates sentences.
        if form_of(path) == ".tsv" and (is_numbered or not BLANK_LINE.search(text.rstrip())):
            return self._read_table(path)
        if len(fields) == WIDTH:
            tag: Tag = "upos"
            if self.target:
                if self.target not in COLUMNS:
                    raise unknown_name("data.target", self.target, COLUMNS)
                tag = self.target  # type: ignore[assignment]
            return read_conllu(text, str(path), tag)
        tags = _position(fields, self.target, TAGS)
        if words is not None and tags is not None:
            return read_lines_of_words(text, path, (words, tags))
        if self.target:
            raise ArgumentError(
                "data.target",
                expected=f"a column in the header of {path.name}",
                got=repr(self.target),
                remedy="omit data.target to read the last field of each line, or add a header",
            )
        return read_lines_of_words(text, path)

    def _read_table(self, path: Path | FrameSource) -> list[Labelled]:
        table = read_table(path, skip_blank=True)
        columns: list[str] = []
        fields = (
            ("word", self.word, WORDS, "the column of the words"),
            ("target", self.target, TAGS, "the column of the tags"),
            ("sentence", self.sentence, SENTENCES, "the column that numbers the sentences"),
        )
        for field, column, usual, what in fields:
            left = [name for name in table.columns if name not in columns]
            likely = [name for name in left if name.lower() in usual]
            columns.append(table.choose(f"data.{field}", column, likely or left, what, columns))
        if not self.target:
            is_usual = columns[1].lower() in TAGS
            note_target(columns[1], "because of its name" if is_usual else "the only column left")
        check_filled(table, columns)
        rows = zip(*(table.columns[name] for name in columns), strict=True)
        return [
            [(word.strip(), tag) for word, tag, _ in words]
            for _, words in groupby(rows, key=lambda row: row[2])
        ]


def read_lines_of_words(
    text: str, path: Path, columns: tuple[int, int] | None = None
) -> list[Labelled]:
    """Read lines of a word and its tag, in ``columns`` or first and last; blank lines end
    sentences.
    """
    sentences: list[Labelled] = []
    words: Labelled = []
    is_header = columns is not None
    word, tag = columns or (0, -1)
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if not line.strip() or line.startswith(START):
            if words:
                sentences.append(words)
            words = []
            continue
        if is_header:
            is_header = line.startswith("#")  # A comment above the header.
            continue
        fields = _fields(line)
        if columns is None:
            fields = [field for field in fields if field]
        if len(fields) < max(2, word + 1, tag + 1) or not fields[tag].strip():
            raise unreadable(
                path,
                expected="a word and its tag in each line, a blank line after each sentence",
                got=repr(line[:60]),
                line=number,
            )
        words.append((fields[word].strip(), fields[tag]))
    if len(sentences) < 2:
        raise ArgumentError(
            str(path),
            expected="several sentences, a blank line after each",
            got=f"one sentence of {counted(len(sentences[0]) if sentences else 0, 'word')}",
            remedy="add a blank line after each sentence, or save the file as .csv with a header "
            "and the columns word, tag and sentence (a number for each sentence)",
        )
    return sentences


def words_in_rows(path: Path, word: str, sentence: str) -> Iterator[tuple[int, list[str]]] | None:
    """Return the first line and the words of each sentence of a table with a word in each row;
    None if the table has no column of words, or none of sentences.
    """
    rows = table_rows(path, argument=str(path))
    if (first := next(rows, None)) is None:
        return None
    names = list(first[1])
    positions = _position(names, word, WORDS), _position(names, sentence, SENTENCES)
    if None in positions:
        return None
    words, sentences = (names[position] for position in positions if position is not None)
    groups = groupby(chain([first], rows), key=lambda row: row[1][sentences])
    read = ([(line, row[words].strip()) for line, row in group] for _, group in groups)
    return ((group[0][0], [text for _, text in group]) for group in read)


def words_in_lines(
    text: str, word: str, tags: Collection[str]
) -> Iterator[tuple[int, list[str]]] | None:
    """Return the first line and the words of each sentence of a text with a word in each line, or a
    word and its tag, and blank lines between sentences; None if the text has another form.
    """
    if _first_line(text).count("\t") == WIDTH - 1:
        return words_of_conllu(text)
    header, _, rest = text.partition("\n")
    column = _position(_fields(header), word, WORDS)
    skipped, body = (0, text) if column is None else (1, rest)
    if not BLANK_LINE.search(body.strip()):
        return None
    for line in body.split("\n"):
        fields = _fields(line)
        if "\t" not in line and len(fields) > 1 and fields[-1] not in tags:
            return None
    return (
        (skipped + line, [_fields(row)[column or 0].strip() for row in block.split("\n")])
        for line, block in blocks(body)
        if not block.startswith(START)
    )


def _first_line(text: str) -> str:
    """Return the first line that is neither blank nor a comment; empty if there is none."""
    return next((line for line in text.split("\n") if line.strip() and line[0] != "#"), "")


def _fields(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def _position(fields: list[str], name: str, usual: tuple[str, ...]) -> int | None:
    """Return the position of a column in a header, the last of several usual names, or None."""
    names = [field.strip().strip('"') for field in fields]
    if name:
        return names.index(name) if name in names else None
    positions = [i for i, field in enumerate(names) if field.lower() in usual]
    return positions[-1] if positions else None


@dataclass(frozen=True)
class EWT(TaggedWords):
    """English web texts (Silveira et al., 2014): 12,544 / 2001 / 2077 sentences.

    Attributes:
        target: column to predict: ``"upos"`` (17 universal parts of speech), ``"xpos"`` or
            ``"deprel"``.

    Example:
        >>> from edgewise.app.kinds.tags import EWT
        >>> splits = EWT(target="xpos").load()  # doctest: +SKIP
    """

    folders = ("UD_English-EWT",)

    target: Tag = "upos"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("data.target", self.target, get_args(Tag))

    def read_splits(self) -> TaggedSplits:
        texts = ewt_texts()
        read = {
            split: read_conllu(text, file, self.target) for split, (file, text) in texts.items()
        }
        return read, {split: file for split, (file, _) in texts.items()}

    def training_texts(self) -> list[str]:
        """Return the texts of the training set."""
        sentences, _files = self.read_splits()
        return [" ".join(word for word, _ in sentence) for sentence in sentences["train"]]


def ewt_texts() -> dict[str, tuple[str, str]]:
    """Return the file name and the text of each split."""
    at = "UniversalDependencies/UD_English-EWT/15d613d8447b3478787d4c278730a1e48a945efb"
    names = {"train": "train", "val": "dev", "test": "test"}
    files = {split: f"en_ewt-ud-{name}.conllu" for split, name in names.items()}
    where = f"https://raw.githubusercontent.com/{at}"
    texts = raw_texts("UD_English-EWT", {f"{f}.gz": f"{where}/{f}" for f in files.values()})
    return {split: (f"{file}.gz", texts[f"{file}.gz"]) for split, file in files.items()}
