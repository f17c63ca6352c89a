"""Image captioning: the loss for the next word, and the accuracy of generated captions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgewise._utils.errors import require
from edgewise.app.train import Classification
from edgewise.decoding import generate

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Captioning(Classification):
    """Image captioning by cross-entropy of the next token.

    Outputs are logits ``[M, vocab_size]`` and targets are tokens ``[M]``, for the M tokens of all
    captions of a batch. On the test set, captions are generated. The metric ``exact`` is the
    fraction of captions without a mistake.

    Attributes:
        label_smoothing: see :class:`Classification`.
    """

    def generation_metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="captions")
        from edgewise.app.train.tasks.text_metrics import Exact

        return {"exact": Exact()}

    def generate(self, model: Any, batch: Any) -> list[str]:
        images, ids = batch.inputs
        tokens = generate(
            model.decoder,
            batch.prompt,
            max_new_tokens=ids.shape[1],
            end=batch.end,
            padding=batch.padding,
            memory=model.memory(images),
        )
        texts: list[str] = batch.decode(tokens[:, 1:])
        return texts
