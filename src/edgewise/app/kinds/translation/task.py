"""Machine translation: cross-entropy of the next token, and BLEU with beam search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError, require
from edgewise.app.train.tasks.classification import Classification
from edgewise.decoding import beam_search
from edgewise.layers import EncoderDecoderModel, Seq2SeqLanguageModel

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Translation(Classification):
    """Translation, with logits ``[M, vocab_size]`` of the next token and target token ids ``[M]``.

    The test set is translated with beam search and evaluated with BLEU by sacrebleu.

    Attributes:
        label_smoothing: see :class:`Classification`.
        num_beams: beam size.
        length_penalty: see :func:`edgewise.decoding.beam_search`.
        max_length_ratio: maximum number of tokens of a translation, divided by that of the longest
            source text in the batch.

    Example:
        >>> import torch
        >>> from edgewise import layers, models
        >>> from edgewise.app.kinds.translation import Translation
        >>> task = Translation()
        >>> model = task.complete(models.transformer(100), {})
        >>> source, target = torch.randint(100, (2, 7)), torch.randint(100, (2, 8))
        >>> model(layers.Tokens(source), layers.Tokens(target)).shape
        torch.Size([16, 100])
    """

    label_smoothing: float = 0.1
    num_beams: int = 5
    length_penalty: float = 1.0
    max_length_ratio: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, usual in (("num_beams", 5), ("max_length_ratio", 2.0)):
            check_range(f"task.{name}", getattr(self, name), f"choose for example {usual}", least=1)

    def complete(self, model: nn.Module, data_sizes: Mapping[str, int]) -> nn.Module:  # noqa: ARG002
        if not isinstance(model, EncoderDecoderModel):
            raise ArgumentError(
                "model",
                expected="a sequence-to-sequence model, such as transformer or t5",
                got=type(model).__name__,
                remedy="choose a sequence-to-sequence model, or another task for this model",
            )
        return Seq2SeqLanguageModel(model)

    def per_example_metrics(self, outputs: Tensor, target: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        return {}  # Tokens of the same text are not independent.

    def generation_metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="BLEU")
        from edgewise.app.train.tasks.text_metrics import BLEU

        return {"bleu": BLEU()}

    def generate(self, model: Any, batch: Any, tokens: int | None = None) -> list[str]:
        """Translate the source texts of a batch, to at most ``tokens`` tokens each."""
        source, _ = batch.inputs
        longest = int(torch.as_tensor(source.lengths()).max())
        ids = beam_search(
            model.model,
            batch.prompt,
            beams=self.num_beams,
            max_new_tokens=round(self.max_length_ratio * longest) if tokens is None else tokens,
            length_penalty=self.length_penalty,
            end=batch.end,
            padding=batch.padding,
            memory=model.memory(source, batch.padding),
        )
        texts: list[str] = batch.decode(ids[:, 1:])
        return texts

    def notes(self) -> dict[str, str]:
        from edgewise.app.train.tasks.text_metrics import bleu_signature

        return {"bleu": bleu_signature()}
