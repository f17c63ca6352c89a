"""Link prediction: binary cross-entropy, AUC, hits@k and mean reciprocal rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from edgewise.arguments import check_least
from edgewise.base_task import Task
from edgewise.errors import require

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class LinkPrediction(Task):
    """Link prediction, with logits ``[M]`` of pairs and targets ``[M]``: 1 for an edge, else 0.

    Attributes:
        hits: k of hits@k, the fraction of edges that score above the k-th best non-edge.
    """

    hits: int = 50

    def __post_init__(self) -> None:
        check_least("task.hits", self.hits, 1, "choose for example 50")

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs, target)

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="link prediction")
        from edgewise.tasks.link_metrics import LinkAUC, LinkHits, LinkMRR

        return {"auc": LinkAUC(), f"hits@{self.hits}": LinkHits(self.hits), "mrr": LinkMRR()}
