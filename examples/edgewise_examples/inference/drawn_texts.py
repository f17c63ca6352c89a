"""What follows in a text of symbols, of the kind that a model was shown what it can reach on."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.inference.predictor import Answer, whole_numbers
from edgewise.inference.text import OnTexts
from edgewise.layers import Tokens
from edgewise.tasks import MaskedLanguageModeling
from edgewise_examples.data.drawn_texts import DrawnTexts


class DrawnTextAnswers(OnTexts):
    """The word said again, or the key that was given: as the data's ``asked`` says.

    An answer has the likeliest token after the text, then the likeliest after that, and so on, and
    the probability of all of them in the model: the product of theirs.
    """

    data, task, input = DrawnTexts, MaskedLanguageModeling, "a text of symbols as numbers"

    def prepare(self, value: Any) -> tuple[Tensor, int]:
        """The text, and how many tokens are to follow."""
        data = self.recipe.data
        assert isinstance(data, DrawnTexts)
        return data.asked(whole_numbers(value, self.input))

    def answer(self, examples: list[tuple[Tensor, int]]) -> list[Answer]:
        longest = self.fitted.model_arguments["longest"]
        text = torch.stack([given for given, _ in examples])
        first = text.shape[1]
        before = torch.arange(len(text)) * longest - 1  # the last place of the row before
        chance = torch.ones(len(text))
        for _ in range(examples[0][1]):
            # Of its full length, by which models place and hash; none of them reads what follows.
            whole = F.pad(text, (0, longest - text.shape[1]))
            scores = self.model(Tokens(whole), before + text.shape[1]).softmax(-1)
            best = scores.max(-1)
            chance = chance * best.values
            text = torch.cat([text, best.indices[:, None]], 1)
        found = zip(text[:, first:].tolist(), chance.tolist(), strict=True)
        return [
            {"answer": " ".join(map(str, tokens)), "probability": each} for tokens, each in found
        ]
