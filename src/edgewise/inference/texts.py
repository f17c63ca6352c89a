"""What all answers on texts have in common: the column that texts are in."""

from __future__ import annotations

from edgewise.inference.predictor import Predictor


class OfTexts(Predictor):
    """Answers on texts, which tables have in the column that the training table had them in."""

    def columns(self) -> tuple[str, ...]:
        return (self.fitted.values.get("text", "text"),)
