"""Masked language modelling: cross-entropy and accuracy of the masked tokens."""

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
    r"""Masked-token prediction, with logits ``[M, vocabulary]`` of the M selected tokens.

    .. math:: L = -\frac1M \sum_{t \in \mathrm{chosen}} \log p(x_t \mid \tilde x)

    :func:`edgewise.data.text.masking.mask_tokens` selects the tokens.

    Paper: Devlin et al., BERT: pre-training of deep bidirectional transformers, 2018
    """

    def check(self, model: nn.Module, batch: Any) -> None:
        """Do nothing: unlike in causal language models, predictions may depend on later tokens."""

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="accuracy")
        from torchmetrics.classification import MulticlassAccuracy

        return {"accuracy": MulticlassAccuracy(average="micro", validate_args=False)}
