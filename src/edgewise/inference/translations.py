"""Texts written from others: translations, and whatever a model of pairs has learned to write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from edgewise.arguments import check_least
from edgewise.data.text.packed_texts import PackedTexts
from edgewise.data.text.parallel import Pairs, TextPairs, sources_of
from edgewise.errors import ArgumentError
from edgewise.inference.predictor import Answer, check_text
from edgewise.inference.texts import OfTexts
from edgewise.tasks import Translation

FURTHEST = 4
"""Times as long as any text of training: beyond, nothing of use is written, and slowly."""


class Translations(OfTexts):
    """The text that beam search finds."""

    data, task, input = TextPairs, Translation, "a text to translate"
    text_key = "translation"
    batch_size = 32

    def prepare(self, value: Any) -> Tensor:
        """The tokens of the text, ``[T]``."""
        read = sources_of(self.tokenizer, [check_text(value, self.input)]).ids
        trained = self.fitted.values.get("longest")  # runs of before did not keep it
        if trained is not None and len(read) > FURTHEST * trained:
            raise ArgumentError(
                "input",
                expected=f"a text of at most {FURTHEST * trained} tokens, {FURTHEST} times the "
                "longest that was trained on",
                got=f"{len(read)} tokens",
                remedy="give it sentence by sentence",
            )
        return read

    def answer(
        self, examples: list[Tensor], *, beams: int | None = None, tokens: int | None = None
    ) -> list[Answer]:
        """The texts.

        Args:
            examples: the tokens of the texts to read.
            beams: beginnings that are kept; as in the recipe by default, and 1 is greedy.
            tokens: the most that are written; by default twice those of the longest text read.
        """
        task = self.recipe.task
        assert isinstance(task, Translation)
        if beams is not None:
            check_least("beams", beams, 1, "choose for example 5")
            task = replace(task, beams=beams)
        if tokens is not None:
            check_least("tokens", tokens, 1, "choose for example 50")
        source = PackedTexts(torch.cat(examples), torch.tensor(list(map(len, examples))))
        unknown = [""] * len(examples)  # nothing is known of what is to be written
        pairs = Pairs.of_sources(self.tokenizer, source, unknown)
        texts = task.generate(self.model, pairs.take(torch.arange(len(examples))), tokens)
        return [{"translation": text} for text in texts]
