"""Reasons for the class of an image, and the attention between its patches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.app.kinds.images.predict import ImageClasses
from edgewise.app.predict.cases import class_case, model_call
from edgewise.app.predict.pages import answer_text
from edgewise.explain.attribution import Case
from edgewise.explain.explanation import Explanation, explain_pixels, grid_of, patch_labels
from edgewise.explain.record import record
from edgewise.explain.removal import merges_patches, without_patches


def explain_image(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    """Record the attention between the patches of an image."""
    with record(run.model, **recording) as recorded:
        answer = answer_text(run, value)
    return explain_pixels(run.model, recorded, run.predictor.prepare(value), answer)


def image_class(predictor: ImageClasses, value: Any, _: int) -> Iterator[Case]:
    """Yield the patches of an image as reasons for its class.

    A removed patch of a Swin Transformer gets the mean colour of the image, because its patches are
    merged outside of attention.
    """
    image = predictor.prepare(value)
    grid = grid_of(predictor.model)
    if grid is None:
        raise ArgumentError(
            "run",
            expected="an image model with patches, such as vit",
            got=type(predictor.model).__name__,
            remedy="train such a model, for example with `edgewise train digits`",
        )

    def scores(patches: Tensor | None = None, _: None = None) -> Tensor:
        shown = image if patches is None else without_patches(image, patches, grid)
        return model_call(predictor, shown)[1]

    with torch.no_grad():
        out = scores()
    member = torch.arange(math.prod(grid))
    case = class_case(predictor, out, scores, member, patch_labels(*grid), class_token=True)
    if merges_patches(predictor.model):
        colour = "the mean colour of the image"
        case = replace(case, score_without=case.score, replacement=colour)
    yield case
