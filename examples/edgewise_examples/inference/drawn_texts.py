"""Predictor for synthetic texts: the next tokens."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.app.kinds.language import MaskedLanguageModeling
from edgewise.app.predict import Answer
from edgewise.app.predict.predictor import whole_numbers
from edgewise.app.predict.texts import OnTexts
from edgewise.layers import Tokens
from edgewise_examples.data.drawn_texts import DrawnTexts


class DrawnTextAnswers(OnTexts):
    """Predictor of the next tokens of a synthetic text: the repeated text or the recalled key.

    The method ``asked`` of the data set turns the input into a prompt. Tokens are decoded greedily.
    The probability of the answer is the product of the probabilities of its tokens.
    """

    data, task, input = DrawnTexts, MaskedLanguageModeling, "a text of symbols as numbers"

    def prepare(self, value: Any) -> tuple[Tensor, int]:
        """Return the prompt and the number of tokens to generate."""
        data = self.recipe.data
        assert isinstance(data, DrawnTexts)
        return data.asked(whole_numbers(value, self.input))

    def answer(self, examples: list[tuple[Tensor, int]]) -> list[Answer]:
        longest = self.preprocessing.model_arguments["longest_text"]
        text = torch.stack([prompt for prompt, _ in examples])
        first = text.shape[1]
        previous_end = torch.arange(len(text)) * longest - 1  # Last position of the previous text.
        chance = torch.ones(len(text))
        for _ in range(examples[0][1]):
            # Pad to the length of training texts, because positions and hash buckets depend on it.
            padded = F.pad(text, (0, longest - text.shape[1]))
            scores = self.model(Tokens(padded), previous_end + text.shape[1]).softmax(-1)
            best = scores.max(-1)
            chance = chance * best.values
            text = torch.cat([text, best.indices[:, None]], 1)
        answers = zip(text[:, first:].tolist(), chance.tolist(), strict=True)
        return [
            {"answer": " ".join(map(str, tokens)), "probability": probability}
            for tokens, probability in answers
        ]
