"""The next token of a text, with smoothed labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from edgewise.arguments import check_share
from edgewise.errors import require
from edgewise.tasks.task import Task

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class NextToken(Task):
    r"""Outputs are scores ``[M, vocabulary]`` of tokens, and targets these ``[M]``.

    .. math:: L = -(1 - ε) \log p_y - \frac{ε}{V} \sum_t \log p_t

    Paper: Szegedy et al., Rethinking the Inception architecture for computer vision, 2016

    Attributes:
        smoothing: ε, the share of certainty that goes to all tokens alike.

    """

    smoothing: float = 0.1

    def __post_init__(self) -> None:
        check_share("task.smoothing", self.smoothing, "choose for example 0.1, or 0 to do without")

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(outputs, target, label_smoothing=self.smoothing)

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="accuracy")
        from edgewise.tasks.text_metrics import TokenAccuracy

        return {"accuracy": TokenAccuracy()}
