"""Labels of sentences, with their probabilities."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgewise.arguments import check_least
from edgewise.data.text.labelled_sentences import LabelledSentences
from edgewise.data.text.packed_texts import PackedTexts
from edgewise.data.text.tokenizer import encode_all
from edgewise.inference.predictor import Answer, check_text
from edgewise.inference.texts import OfTexts
from edgewise.tasks import TextClassification


class SentenceClasses(OfTexts):
    """The likeliest labels of a sentence; of a longer text than it was trained on the beginning."""

    data, task, input = LabelledSentences, TextClassification, "a sentence"

    def prepare(self, value: Any) -> str:
        return check_text(value, self.input)

    def answer(self, examples: list[str], *, top: int = 1) -> list[Answer]:
        data = self.recipe.data
        assert isinstance(data, LabelledSentences)
        whole = PackedTexts(*encode_all(self.tokenizer, examples, first="cls", last="sep"))
        longest = self.fitted.model_arguments["longest"]
        texts = whole.cut(longest)
        tokens = data.shown("test", texts.ids, texts.sizes, self.tokenizer)
        found = labelled(self.model(tokens).softmax(-1), self.fitted.values["labels"], top)
        for answer, size in zip(found, whole.sizes.tolist(), strict=True):
            if size > longest:
                answer["read"] = f"the first {longest} of {size} tokens"
        return found


def labelled(probabilities: Tensor, labels: list[str], top: int) -> list[Answer]:
    """The likeliest label of each row of ``[B, classes]``, and the ``top`` likeliest where asked.

    Each answer has ``label`` and ``probability``; with ``top`` above 1 also ``top``, a list of
    such pairs, the likeliest first.
    """
    check_least("top", top, 1, "choose how many labels you want")
    found = torch.topk(probabilities, min(top, len(labels)), dim=-1)
    answers: list[Answer] = []
    for values, numbers in zip(found.values.tolist(), found.indices.tolist(), strict=True):
        each = [
            {"label": labels[number], "probability": value}
            for value, number in zip(values, numbers, strict=True)
        ]
        answers.append({**each[0], "top": each} if top > 1 else {**each[0]})
    return answers
