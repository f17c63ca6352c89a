"""Predictor of translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise.app.kinds.translation.data import Pairs, TextPairs, sources_of
from edgewise.app.kinds.translation.task import Translation
from edgewise.app.predict.predictor import Answer, check_text
from edgewise.app.predict.texts import OnTexts
from edgewise.app.train.batches import Batch
from edgewise.app.train.text.packed_texts import PackedTexts

MAX_LENGTH_FACTOR = 4
"""Maximum length of a text to translate, as a multiple of the longest training text. For longer
texts, the output is useless and slow to compute."""


class Translations(OnTexts):
    """Target text of a sequence-to-sequence model, found by beam search."""

    data, task, input = TextPairs, Translation, "a text to translate"
    text_key = "translation"
    batch_size = 32

    def prepare(self, value: Any) -> Tensor:
        """Return the token ids ``[T]`` of the text."""
        ids = sources_of(self.tokenizer, [check_text(value, self.input)]).ids
        longest = MAX_LENGTH_FACTOR * self.preprocessing.values["longest"]
        if len(ids) > longest:
            raise ArgumentError(
                "input",
                expected=f"a text of at most {longest} "
                f"tokens ({MAX_LENGTH_FACTOR} times the length of the longest training text)",
                got=f"{len(ids)} tokens",
                remedy="translate the text sentence by sentence",
            )
        return ids

    def pair_batch(self, sources: Sequence[Tensor], targets: Sequence[str]) -> Batch:
        """Return the batch of encoded source texts and their target texts."""
        source = PackedTexts(torch.cat([*sources]), torch.tensor([len(ids) for ids in sources]))
        return Pairs.of(self.tokenizer, source, targets).take(torch.arange(len(sources)))

    def answer(
        self,
        examples: list[Tensor],
        *,
        num_beams: int | None = None,
        max_new_tokens: int | None = None,
    ) -> list[Answer]:
        """Generate the target texts; options default to the values in the recipe's task."""
        task = self.recipe.task
        assert isinstance(task, Translation)
        if num_beams is not None:
            check_range("num_beams", num_beams, "choose for example 5", least=1)
            task = replace(task, num_beams=num_beams)
        if max_new_tokens is not None:
            check_range("max_new_tokens", max_new_tokens, "choose for example 50", least=1)
        batch = self.pair_batch(examples, [""] * len(examples))  # The target texts are not known.
        texts = task.generate(self.model, batch, max_new_tokens)
        return [{"translation": text} for text in texts]
