"""Causal language modelling: cross-entropy of the next token in nats, perplexity and bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.base_task import Task
from edgewise.layers import LanguageModel
from edgewise.tasks.text import text_model

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class LanguageModeling(Task):
    r"""Outputs are scores ``[M, vocabulary]`` of the next token, targets its number ``[M]``.

    .. math:: L = -\frac1M \sum_t \log p(x_{t+1} \mid x_{\le t})

    The loss is in nats a token (of a character where these are the tokens); bits are
    :math:`L / \ln 2` and the perplexity :math:`e^L`.
    """

    takes: ClassVar[tuple[str, ...]] = ("longest",)

    def complete(self, model: nn.Module, data_sizes: Mapping[str, int]) -> nn.Module:
        return LanguageModel(text_model(model, data_sizes))

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(outputs, target)

    def metrics(self) -> dict[str, Metric]:
        return {}

    def from_loss(self, loss: float) -> dict[str, float]:
        return {"bits": loss / math.log(2), "perplexity": math.exp(min(loss, 700.0))}
