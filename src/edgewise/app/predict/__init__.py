"""What predictors of all kinds share."""

from __future__ import annotations

from edgewise.app.predict.predictor import Answer, Predictor

__all__ = ["Answer", "Predictor"]


def __dir__() -> list[str]:
    return __all__
