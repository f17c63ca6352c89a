"""Image captioning: cross-entropy of the next token, and generation of captions for the test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgewise.decoding import generate
from edgewise.errors import require
from edgewise.tasks.classification import Classification

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Captioning(Classification):
    """Image captioning, with outputs ``[M, vocabulary]`` and token targets ``[M]``.

    Captions are generated for the test split; ``exact`` is the fraction without any error.

    Attributes:
        label_smoothing: See :class:`Classification`.

    """

    def generation_metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="captions")
        from edgewise.tasks.text_metrics import Exact

        return {"exact": Exact()}

    def generate(self, model: Any, batch: Any) -> list[str]:
        images, ids = batch.inputs
        found = generate(
            model.decoder,
            batch.prompt,
            max_new_tokens=ids.shape[1],
            end=batch.end,
            padding=batch.padding,
            memory=model.memory(images),
        )
        texts: list[str] = batch.decode(found[:, 1:])
        return texts
