"""Reasons for the class of an image, and the attention between its patches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from edgewise._utils.errors import ArgumentError
from edgewise.app.kinds.images.predict import ImageClasses
from edgewise.app.predict.cases import class_case, output_rows
from edgewise.app.predict.pages import answer_text
from edgewise.explain.attribution import Case
from edgewise.explain.explanation import Explanation, explain_pixels, patch_labels
from edgewise.explain.record import record


def explain_image(run: Any, value: Any, recording: Mapping[str, Any]) -> Explanation:
    """Record the attention between the patches of an image."""
    with record(run.model, **recording) as recorded:
        answer = answer_text(run, value)
    return explain_pixels(run.model, recorded, run.predictor.prepare(value), answer)


def image_class(predictor: ImageClasses, value: Any, _: int) -> Iterator[Case]:
    """Yield the patches of an image as reasons for its class."""
    (images,), out, scores = output_rows(predictor, value)
    embedding = next((m for m in predictor.model.modules() if hasattr(m, "num_patches")), None)
    if embedding is None:
        raise ArgumentError(
            "run",
            expected="an image model with patches, such as vit",
            got=type(predictor.model).__name__,
            remedy="train such a model, for example with `edgewise train digits`",
        )
    height, width = images.shape[-2:]
    count = int(embedding.num_patches)  # type: ignore[arg-type]
    columns = round(math.sqrt(count * width / height))
    labels = patch_labels(count // columns, columns)
    yield class_case(predictor, out, scores, torch.arange(count), labels, class_token=True)
