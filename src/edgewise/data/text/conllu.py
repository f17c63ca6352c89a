"""Sentences whose words are annotated, in the CoNLL-U format of Universal Dependencies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from edgewise.data.text.labelled_sentences import Labelled
from edgewise.errors import ArgumentError

Tag = Literal["upos", "xpos", "deprel"]
COLUMNS: dict[str, int] = {"upos": 3, "xpos": 4, "head": 6, "deprel": 7}
WIDTH = 10
WORD = re.compile(r"[0-9]+(?P<part>[-.][0-9]+)?")


def read_conllu(text: str, name: str, tag: Tag | Literal["head"] = "upos") -> list[Labelled]:
    """Word and tag of every word of each sentence; or the number of its head, 0 for a root.

    Contracted forms (1-2) and words that are not in the text (1.1) are left out.

    Raises:
        ArgumentError: a sentence without words, a line of another form, or words that are not
            numbered from 1 without gaps, as where a line was lost; names the line.
    """
    column = COLUMNS[tag]
    sentences: list[Labelled] = []
    words: Labelled = []
    for number, line in enumerate([*text.rstrip("\n").split("\n"), ""], 1):
        if not line.strip():
            if not words:
                raise _unreadable(name, "a sentence without words that ends", number)
            sentences.append(words)
            words = []
        elif not line.startswith("#"):
            fields = line.split("\t")
            if len(fields) != WIDTH:
                raise _unreadable(name, f"{len(fields)} columns", number)
            kind = WORD.fullmatch(fields[0])
            if kind is None or (not kind["part"] and fields[0] != str(len(words) + 1)):
                raise _unreadable(name, f"word {fields[0]!r} after {len(words)} words", number)
            if not kind["part"]:
                words.append((fields[1], fields[column]))
    return sentences


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Each sentence as it stands in the text, and the number of its first line."""
    lines: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.strip():
            lines.append(line)
        elif lines:
            yield number - len(lines), "\n".join(lines)
            lines = []


def words_of(block: str) -> list[str]:
    """The words of one sentence, of which nothing else is looked at."""
    rows = (line.split("\t") for line in block.split("\n"))
    return [row[1] for row in rows if len(row) > 1 and row[0].isdecimal()]


def _unreadable(name: str, got: str, line: int) -> ArgumentError:
    return ArgumentError(
        name,
        expected=f"CoNLL-U: numbered words with {WIDTH} columns, an empty line after each sentence",
        got=f"{got} in line {line}",
        remedy="correct this line",
    )
