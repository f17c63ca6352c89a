"""Words with tags, such as their parts of speech."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from edgewise.data.reading import read_own_text
from edgewise.data.tables.read import form_of
from edgewise.data.text.conllu import blocks, words_of
from edgewise.data.text.tagged_words import TaggedWords, encode_words
from edgewise.errors import ArgumentError
from edgewise.inference.predictor import Answer
from edgewise.inference.texts import OfTexts
from edgewise.tasks import Tagging


class WordTags(OfTexts):
    """The likeliest tag of each word of a sentence."""

    data, task, input = TaggedWords, Tagging, "a sentence, or a list of its words"

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Sentences of CoNLL-U, of which the words are read; or rows or lines with one each."""
        if form_of(path) != ".conllu":
            yield from super().from_file(path)
            return
        for line, block in blocks(read_own_text(path)):
            words = words_of(block)
            yield line, {"input": " ".join(words)}, words

    def prepare(self, value: Any) -> list[str]:
        """The words: what stands between white space, or those of a list as they are."""
        words = value.split() if isinstance(value, str) else value
        if (
            not isinstance(words, (list, tuple))
            or not words
            or not all(isinstance(word, str) and word.strip() for word in words)
        ):
            raise ArgumentError(
                "input",
                expected=f"{self.input}, none of them blank",
                got=repr(value)[:60],
                remedy="write a sentence",
            )
        return [word.strip() for word in words]

    def answer(self, examples: list[list[str]]) -> list[Answer]:
        data = self.recipe.data
        assert isinstance(data, TaggedWords)
        tags = self.fitted.values["labels"]
        words = encode_words(self.tokenizer, [word for words in examples for word in words])
        longest = self.fitted.model_arguments["longest"]
        words = words.cut(longest)  # a single word of more tokens than any sentence had
        parts = _parts([len(words) for words in examples], words.sizes.tolist(), longest)
        tokens = data.shown("test", words.ids, torch.tensor(parts), self.tokenizer)
        probabilities = self.model(tokens, words.sizes).softmax(-1)
        best = probabilities.max(-1)
        found = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        return [
            {
                "words": [
                    {"word": word, "tag": tags[number], "probability": value}
                    for word, (value, number) in zip(words, found, strict=False)
                ]
            }
            for words in examples
        ]


def _parts(counts: list[int], sizes: list[int], longest: int) -> list[int]:
    """Tokens that are read together: those of a sentence, in several parts where it is too long.

    Args:
        counts: how many words each sentence has.
        sizes: how many tokens each word has.
        longest: the most of a part.
    """
    parts: list[int] = []
    remaining = iter(sizes)
    for count in counts:
        parts.append(0)
        for _ in range(count):
            size = next(remaining)
            if parts[-1] + size > longest:
                parts.append(0)
            parts[-1] += size
    return parts
