"""Predictor of translations."""

from __future__ import annotations

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
        read = sources_of(self.tokenizer, [check_text(value, self.input)]).ids
        # Runs of older versions do not have this value.
        trained = self.preprocessing.values.get("longest")
        if trained is not None and len(read) > MAX_LENGTH_FACTOR * trained:
            raise ArgumentError(
                "input",
                expected=f"a text of at most {MAX_LENGTH_FACTOR * trained} "
                f"tokens ({MAX_LENGTH_FACTOR} times the length of the longest training text)",
                got=f"{len(read)} tokens",
                remedy="translate the text sentence by sentence",
            )
        return read

    def answer(
        self,
        examples: list[Tensor],
        *,
        num_beams: int | None = None,
        max_new_tokens: int | None = None,
    ) -> list[Answer]:
        """Generate the target texts.

        Args:
            examples: token ids of the source texts.
            num_beams: beam size, by default the value in the recipe; 1 is greedy search.
            max_new_tokens: maximum number of tokens to generate, by default ``max_length_ratio`` of
                the recipe's task times the number of tokens of the longest source text.
        """
        task = self.recipe.task
        assert isinstance(task, Translation)
        if num_beams is not None:
            check_range("num_beams", num_beams, "choose for example 5", least=1)
            task = replace(task, num_beams=num_beams)
        if max_new_tokens is not None:
            check_range("max_new_tokens", max_new_tokens, "choose for example 50", least=1)
        source = PackedTexts(torch.cat(examples), torch.tensor(list(map(len, examples))))
        unknown = [""] * len(examples)  # Placeholders for the unknown target texts.
        pairs = Pairs.of_sources(self.tokenizer, source, unknown)
        texts = task.generate(self.model, pairs.take(torch.arange(len(examples))), max_new_tokens)
        return [{"translation": text} for text in texts]
