"""Reasons for a prediction: the tenths of a second of a recording."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgewise.app.kinds.sounds.data import SoundData
from edgewise.app.kinds.sounds.features import tenths, with_background
from edgewise.app.kinds.sounds.files import read_recording
from edgewise.app.kinds.sounds.predict import SoundClasses
from edgewise.app.predict.cases import class_case, model_call
from edgewise.explain.attribution import Case


def sound_class(predictor: SoundClasses, value: Any, _: int) -> Iterator[Case]:
    """Yield the tenths of a second of a recording as reasons for its class.

    A removed tenth gets the sound of the quietest one: zeros would be a sound that no recording
    has, and without its tokens the graph would have a gap.
    """
    tokens, data = predictor.prepare(value), predictor.recipe.data
    assert isinstance(data, SoundData)
    recording = read_recording(Path(value))
    member, labels = tenths(len(tokens))

    def scores(removed: Tensor | None = None, _: None = None) -> Tensor:
        if removed is None:
            return model_call(predictor, tokens)[1]
        rest = with_background(recording, removed)
        return model_call(predictor, data.to_tokens(rest, predictor.preprocessing.values))[1]

    with torch.no_grad():
        out = scores()
    case = class_case(predictor, out, scores, member, labels)
    yield replace(case, score_without=case.score, replacement="the quietest tenth of a second")
