"""Predictor of word tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.read_table import form_of, is_table
from edgewise.app.files.reading import read_own_text
from edgewise.app.kinds.tags.conllu import words_of_conllu
from edgewise.app.kinds.tags.data import TaggedWords, encode_words
from edgewise.app.kinds.tags.files import TagFile, words_in_lines, words_in_rows
from edgewise.app.predict.predictor import Answer
from edgewise.app.predict.texts import OnTexts
from edgewise.app.train.tasks.text_classification import Tagging


class WordTags(OnTexts):
    """Most probable tag of each word of a sentence."""

    data, task, input = TaggedWords, Tagging, "a sentence, or a list of its words"

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Read the sentences of a CoNLL-U file, of a table or of lines. A row of a table, or a
        line, has a sentence, or a word as in the training file, whose tag is not read.
        """
        data = self.recipe.data
        chosen = (data.word, data.sentence) if isinstance(data, TagFile) else ("", "")
        sentences: Iterator[tuple[int, list[str]]] | None = None
        if form_of(path) == ".conllu":
            sentences = words_of_conllu(read_own_text(path))
        elif is_table(path):
            sentences = words_in_rows(path, *chosen)
        if sentences is None and form_of(path) in (".tsv", ".txt"):
            tags = self.preprocessing.values["labels"]
            sentences = words_in_lines(read_own_text(path), chosen[0], tags)
        if sentences is None:
            yield from super().from_file(path)
            return
        for line, words in sentences:
            yield line, {"input": " ".join(words)}, words

    def prepare(self, value: Any) -> list[str]:
        """Split a text at white space; keep the words of a list as they are."""
        words = value.split() if isinstance(value, str) else value
        if (
            not isinstance(words, (list, tuple))
            or not words
            or not all(isinstance(word, str) and word.strip() for word in words)
        ):
            raise ArgumentError(
                "input",
                expected=f"{self.input} that is not blank",
                got=repr(value)[:60],
                remedy="write a sentence",
            )
        return [word.strip() for word in words]

    def answer(self, examples: list[list[str]]) -> list[Answer]:
        data = self.recipe.data
        assert isinstance(data, TaggedWords)
        tags = self.preprocessing.values["labels"]
        words = encode_words(self.tokenizer, [word for words in examples for word in words])
        longest = self.preprocessing.model_arguments["longest_text"]
        # A single word can have more tokens than any training sentence.
        words = words.cut(longest)
        lengths = split_lengths([len(words) for words in examples], words.sizes.tolist(), longest)
        tokens = data.shown("test", words.ids, torch.tensor(lengths), self.tokenizer)
        best = self.model(tokens, words.sizes).softmax(-1).max(-1)
        predictions = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        return [
            {
                "words": [
                    {"word": word, "tag": tags[number], "probability": value}
                    for word, (value, number) in zip(words, predictions, strict=False)
                ]
            }
            for words in examples
        ]


def split_lengths(counts: list[int], sizes: list[int], longest: int) -> list[int]:
    """Return the lengths in tokens, at most ``longest``, into which sentences are split."""
    lengths: list[int] = []
    remaining = iter(sizes)
    for count in counts:
        lengths.append(0)
        for size in islice(remaining, count):
            if lengths[-1] + size > longest:
                lengths.append(0)
            lengths[-1] += size
    return lengths
