"""Reasons for a prediction, and its explanation: texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgewise.app.kinds.texts.predict import SentenceClasses, SentenceProperties
from edgewise.app.predict.cases import _row_odds, _rows, _target_cases, _words
from edgewise.explain.attribution import Case


def _sentence_properties(predictor: SentenceProperties, value: Any, _: int) -> Iterator[Case]:
    given, out, scores = _rows(predictor, value)
    member, labels = _words(predictor.tokenizer, given[0].ids.flatten())
    yield from _target_cases(predictor, out, scores, member, labels)


def _sentence(predictor: SentenceClasses, value: Any, _: int) -> Iterator[Case]:
    given, out, scores = _rows(predictor, value)
    member, labels = _words(predictor.tokenizer, given[0].ids.flatten())
    best = int(out[0].argmax())
    answer = predictor.preprocessing.values["labels"][best]
    yield Case(_row_odds(scores, 0, best), member, labels, answer)
