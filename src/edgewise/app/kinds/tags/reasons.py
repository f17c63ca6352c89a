"""Reasons for a prediction, and its explanation: tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from edgewise.app.kinds.tags.predict import WordTags
from edgewise.app.predict.cases import _row_odds, _rows, _too_long
from edgewise.explain.attribution import Case


def _tags(predictor: WordTags, value: Any, _: int) -> Iterator[Case]:
    words = predictor.prepare(value)
    given, out, scores = _rows(predictor, value)
    tokens, sizes = given
    member = torch.arange(len(words)).repeat_interleave(sizes)
    start = sizes.cumsum(0) - sizes
    if len(tokens.sizes) > 1:
        raise _too_long(len(member))
    for row, (word, best) in enumerate(zip(words, out.argmax(-1).tolist(), strict=True)):
        own = torch.arange(int(start[row]), int(start[row] + sizes[row]))
        answer = f"{word}: {predictor.preprocessing.values['labels'][best]}"
        yield Case(_row_odds(scores, row, best), member, words, answer, own)
