"""Predictors for lookups in graphs: the values of dictionary keys, and the value of a leaf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from edgewise.app.predict import Answer, Predictor
from edgewise.app.predict.predictor import as_words, whole_numbers
from edgewise.app.train import Classification
from edgewise_examples.data.dictionary_lookup import DictionaryLookup
from edgewise_examples.data.neighbors_match import NeighborsMatch


class DictionaryAnswers(Predictor):
    """Predictor of the value of each key of a dictionary.

    A model such as GAT, whose ranking of the keys is the same for all queries, predicts the same
    value for all keys.
    """

    data, task = DictionaryLookup, Classification
    input = "the value of each key, starting at key 0"

    def columns(self) -> tuple[str, ...]:
        return ("values",)

    def prepare(self, value: Any) -> Tensor:
        assert isinstance(self.recipe.data, DictionaryLookup)
        return self.recipe.data.asked(whole_numbers(value, self.input))

    def answer(self, examples: list[Tensor]) -> list[Answer]:
        data = self.recipe.data
        assert isinstance(data, DictionaryLookup)
        batch = data.as_batch(torch.stack(examples))
        scores = batch.select_outputs(self.model(*batch.inputs)).view(len(examples), data.size, -1)
        best = scores.softmax(-1).max(-1)
        predictions = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [
            {
                "answers": [
                    {"key": key, "answer": number, "probability": chance}
                    for key, (number, chance) in enumerate(zip(numbers, chances, strict=True))
                ]
            }
            for numbers, chances in predictions
        ]


class LeafAnswers(Predictor):
    """Predictor of the value of the leaf that has the same key as the root."""

    data, task = NeighborsMatch, Classification
    input = "the value of each leaf, starting at key 0, and the key of the root"

    def columns(self) -> tuple[str, ...]:
        return ("values", "key")

    def from_row(self, row: Mapping[str, Any]) -> Any:
        return f"{as_words(row['values'])} {row['key']}"

    def prepare(self, value: Any) -> tuple[Tensor, Tensor]:
        assert isinstance(self.recipe.data, NeighborsMatch)
        return self.recipe.data.asked(whole_numbers(value, self.input))

    def answer(self, examples: list[tuple[Tensor, Tensor]]) -> list[Answer]:
        assert isinstance(self.recipe.data, NeighborsMatch)
        values, keys = map(torch.stack, zip(*examples, strict=True))
        batch = self.recipe.data.as_batch(values, keys)
        best = self.model(*batch.inputs, **batch.keywords).softmax(-1).max(-1)
        predictions = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [{"answer": number, "probability": chance} for number, chance in predictions]
