"""Reasons for the class or numbers of a text: its words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgewise.app.kinds.texts.predict import SentenceClasses, SentenceProperties
from edgewise.app.predict.cases import class_case, output_rows, target_cases, word_members
from edgewise.explain.attribution import Case


def sentence_properties(predictor: SentenceProperties, value: Any, _: int) -> Iterator[Case]:
    """Yield the words of a text as reasons for each number."""
    (tokens,), out, scores = output_rows(predictor, value)
    member, labels = word_members(predictor.tokenizer, tokens.ids.flatten())
    yield from target_cases(predictor, out, scores, member, labels)


def sentence_class(predictor: SentenceClasses, value: Any, _: int) -> Iterator[Case]:
    """Yield the words of a text as reasons for its class."""
    (tokens,), out, scores = output_rows(predictor, value)
    member, labels = word_members(predictor.tokenizer, tokens.ids.flatten())
    yield class_case(predictor, out, scores, member, labels)
