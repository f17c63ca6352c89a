"""Predictor for sentences with syntax trees: a label for each word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.read_table import is_table
from edgewise.app.files.reading import read_json, read_own_text
from edgewise.app.kinds.tags.conllu import blocks, read_conllu, words_of
from edgewise.app.predict import Answer, Predictor
from edgewise.app.train import Classification
from edgewise_examples.data.ewt_trees import EWTTrees, Sentence, forest, sentence

INPUT = "input"


class TreeLabels(Predictor):
    """Predictor of the most probable label of each word, such as its dependency relation.

    A sentence is given as CoNLL-U text, or as an object with ``words`` and ``heads``. The head of a
    word is the number of another word, counted from 1, or 0 for the root. A model trained on chains
    (``data.links = "chain"``) needs no heads.
    """

    data, task = EWTTrees, Classification
    input = 'a sentence with heads, such as {"words": ["Dogs", "bark"], "heads": [2, 0]}'

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Read the sentences of a CoNLL-U file, or table rows with words and heads."""
        if is_table(path):
            yield from super().from_file(path)
            return
        for line, block in blocks(read_own_text(path)):
            yield line, {"input": " ".join(words_of(block))}, block

    def columns(self) -> tuple[str, ...]:
        assert isinstance(self.recipe.data, EWTTrees)
        return ("words",) if self.recipe.data.links == "chain" else ("words", "heads")

    def from_row(self, row: Mapping[str, Any]) -> Any:
        return row

    def prepare(self, value: Any) -> Sentence:
        data = self.recipe.data
        assert isinstance(data, EWTTrees)
        if isinstance(value, str) and "\t" in value:
            sentences = [read_conllu(value, "sentence", name) for name in (data.label, "head")]
            if len(sentences[0]) != 1:
                raise _strange("one sentence", f"{len(sentences[0])} sentences")
            (labelled,), (headed,) = sentences
            return sentence(labelled, headed, data.links, INPUT)
        row = self._of_row(_object(value, self.input))
        words, heads = (_listed(row[name]) if name in row else [] for name in ("words", "heads"))
        if not words or not all(isinstance(word, str) and word.strip() for word in words):
            raise _strange("words that are not blank", row["words"])
        heads = heads if "heads" in self.columns() else ["0"] * len(words)
        if len(heads) != len(words):
            raise _strange(f"one head for each of {len(words)} words", heads)
        word_heads = list(zip(words, map(str, heads), strict=True))
        return sentence(word_heads, word_heads, data.links, INPUT)

    def answer(self, examples: list[Sentence]) -> list[Answer]:
        data = self.recipe.data
        assert isinstance(data, EWTTrees)
        graphs, pieces = forest(examples, data.hashed)
        words, graph, _members, _edges = graphs.take(torch.arange(len(graphs)))
        scores = self.model(pieces.of(words[:, 0]), graph, batch=graphs.sizes)
        best = scores.softmax(-1).max(-1)
        labels = self.preprocessing.values["labels"]
        predictions = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [
            {
                "words": [
                    {"word": word, data.label: labels[number], "probability": chance}
                    for word, (number, chance) in zip(tree.words, predictions, strict=False)
                ]
            }
            for tree in examples
        ]

    def show(self, value: Any) -> str:
        if isinstance(value, str) and "\t" in value:
            return " ".join(words_of(value))
        return " ".join(_listed(_object(value, self.input)["words"]))


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = read_json(value)
        except ValueError:
            value = value[:60]
    if not isinstance(value, Mapping):
        raise _strange(what, value)
    return value


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str):
        return value.split()
    return list(value) if isinstance(value, (list, tuple)) else []


def _strange(expected: str, got: Any) -> ArgumentError:
    remedy = "pass a CoNLL-U file by --input, or an object with words and heads"
    return ArgumentError(INPUT, expected=expected, got=repr(got)[:60], remedy=remedy)
