"""Reasons for the tags of words: the words of the sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from edgewise.app.kinds.tags.predict import WordTags
from edgewise.app.predict.cases import output_rows, row_odds, too_long
from edgewise.explain.attribution import Case


def word_tags(predictor: WordTags, value: Any, _: int) -> Iterator[Case]:
    """Yield the words of a sentence as reasons for each tag."""
    words = predictor.prepare(value)
    (tokens, sizes), out, scores = output_rows(predictor, value)
    member = torch.arange(len(words)).repeat_interleave(sizes)
    start = sizes.cumsum(0) - sizes
    if len(tokens.sizes) > 1:
        raise too_long(len(member))
    for row, (word, best) in enumerate(zip(words, out.argmax(-1).tolist(), strict=True)):
        word_tokens = torch.arange(int(start[row]), int(start[row] + sizes[row]))
        answer = f"{word}: {predictor.preprocessing.values['labels'][best]}"
        yield Case(row_odds(scores, row, best), member, words, answer, word_tokens)
