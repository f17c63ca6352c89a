"""Predictors on texts: classes and properties."""

from __future__ import annotations

from edgewise.app.kinds.texts.data import LabelledSentences
from edgewise.app.predict.predictor import Answer, top_labels
from edgewise.app.predict.properties import Properties
from edgewise.app.predict.texts import OnTexts, _joined
from edgewise.app.train.tasks.text_classification import TextClassification
from edgewise.layers import Tokens


class OnSentences(OnTexts):
    """Base of predictors on sentences; texts longer than all training texts are truncated."""

    data, input = LabelledSentences, "a sentence"

    def read(self, examples: list[str]) -> tuple[Tokens, list[Answer]]:
        """Return the tokens of sentences, encoded as in training, and notes about truncation."""
        data = self.recipe.data
        assert isinstance(data, LabelledSentences)
        texts, notes = self.truncated(examples)
        return data.shown("test", texts.ids, texts.sizes, self.tokenizer), notes


class SentenceClasses(OnSentences):
    """Most probable labels of a sentence."""

    task = TextClassification

    def answer(self, examples: list[str], *, top: int = 1) -> list[Answer]:
        tokens, notes = self.read(examples)
        chances = self.model(tokens).softmax(-1)
        return _joined(top_labels(chances, self.preprocessing.values["labels"], top), notes)


class SentenceProperties(OnSentences, Properties):
    """Several labels of a sentence with their probabilities, or predicted numbers."""

    ensembles = True

    def answer(self, examples: list[str], *, interval: float = 0.0) -> list[Answer]:
        tokens, notes = self.read(examples)
        return _joined(self.described(*self.called(tokens), interval), notes)
