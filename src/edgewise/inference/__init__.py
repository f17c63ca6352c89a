"""Predictions of trained runs on new inputs; one file per kind of input."""

from __future__ import annotations

from edgewise.inference.predictor import Answer, Predictor
from edgewise.inference.predictors import PREDICTORS, predictor_of
from edgewise.inference.run import Run, load

__all__ = ["PREDICTORS", "Answer", "Predictor", "Run", "load", "predictor_of"]


def __dir__() -> list[str]:
    return sorted(__all__)
