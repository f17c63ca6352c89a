"""Predictors for texts: labels, tags, embeddings, masked words, continuations, translations."""

from __future__ import annotations

from typing import Any

from edgewise.app.predict.predictor import Answer, Predictor, check_text
from edgewise.app.train.text.packed_texts import PackedTexts
from edgewise.app.train.text.tokenizer import encode_all


class OnTexts(Predictor):
    """Base of predictors on texts; the text column is named as in the training table."""

    ordered = True

    def columns(self) -> tuple[str, ...]:
        return (self.preprocessing.values.get("text", "text"),)

    def prepare(self, value: Any) -> Any:
        return check_text(value, self.input)

    def truncated(self, examples: list[str]) -> tuple[PackedTexts, list[Answer]]:
        """Return the tokens of texts, truncated to the model, and a dict with a note for each."""
        tokens = PackedTexts(*encode_all(self.tokenizer, examples, first="cls", last="sep"))
        longest = self.preprocessing.model_arguments["longest_text"]
        notes: list[Answer] = [
            {"read": f"the first {longest} of {size} tokens"} if size > longest else {}
            for size in tokens.sizes.tolist()
        ]
        return tokens.cut(longest), notes


def _joined(answers: list[Answer], notes: list[Answer]) -> list[Answer]:
    return [answer | note for answer, note in zip(answers, notes, strict=True)]
