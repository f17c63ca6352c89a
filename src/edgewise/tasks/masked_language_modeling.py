"""Masked language modelling: cross-entropy and accuracy at the masked places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from edgewise.errors import require
from edgewise.tasks.language_modeling import LanguageModeling

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class MaskedLanguageModeling(LanguageModeling):
    r"""Outputs are scores ``[M, vocabulary]`` at the M places that were chosen, in the whole batch.

    .. math:: L = -\frac1M \sum_{t \in \mathrm{chosen}} \log p(x_t \mid \tilde x)

    :func:`edgewise.data.text.masking.mask_tokens` chooses them.

    Paper: Devlin et al., BERT: pre-training of deep bidirectional transformers, 2018
    """

    def check(self, model: nn.Module, batch: Any) -> None:
        """Nothing: what is hidden may be looked for on both sides."""

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="accuracy")
        from torchmetrics.classification import MulticlassAccuracy

        return {"accuracy": MulticlassAccuracy(average="micro", validate_args=False)}
