"""Reasons for a prediction: the tenths of a second of a recording."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgewise.app.kinds.sounds.features import tenths
from edgewise.app.kinds.sounds.predict import SoundClasses
from edgewise.app.predict.cases import class_case, output_rows
from edgewise.explain.attribution import Case


def sound_class(predictor: SoundClasses, value: Any, _: int) -> Iterator[Case]:
    """Yield the tenths of a second of a recording as reasons for its class."""
    inputs, out, scores = output_rows(predictor, value)
    member, labels = tenths(len(inputs[0]))
    yield class_case(predictor, out, scores, member, labels)
