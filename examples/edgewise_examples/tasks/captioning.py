"""Image captioning: cross-entropy of the next word, and generated captions on the test set."""

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
    """Captioning task with logits ``[M, vocabulary]`` and target tokens ``[M]``.

    On the test set captions are generated; ``exact`` is the fraction of captions without a mistake.

    Attributes:
        label_smoothing: see :class:`Classification`.
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
