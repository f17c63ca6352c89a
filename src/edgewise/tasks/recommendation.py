"""Item recommendation: a sampled softmax over items, recall@k and nDCG@k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.arguments import check_positive
from edgewise.base_task import Task
from edgewise.errors import require

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Recommendation(Task):
    r"""The user's item i among items drawn at random, with scores s over a temperature τ.

    .. math:: L = -\log \frac{e^{s_{ui}/τ}}{e^{s_{ui}/τ} + \sum_{j} e^{s_{uj}/τ}}

    In training on drawn items outputs are ``[B, 1 + M]`` and targets ``[B]``, the place of the
    right one. Where all items are ranked outputs are ``[B, items]`` and targets of that shape: 1
    for an item that the user is going to choose, 0 for another, -1 for one that does not count. The
    loss is then the mean over the 1s, and j runs over all other items that count.

    Paper: Wu et al., On the effectiveness of sampled softmax loss for item recommendation, 2022

    Attributes:
        temperature: τ; the lower, the more the items count that score high by mistake.
        k: how many items are recommended.

    """

    temperature: float = 0.1
    k: int = 20

    def __post_init__(self) -> None:
        for name, value in (("temperature", self.temperature), ("k", self.k)):
            check_positive(f"task.{name}", value, "choose for example 0.1 and 20")

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        outputs = outputs / self.temperature
        if target.dim() == 1:
            return F.cross_entropy(outputs, target)
        total = outputs.masked_fill(target < 0, -torch.inf).logsumexp(-1)
        user, item = (target == 1).nonzero(as_tuple=True)
        return (total[user] - outputs[user, item]).mean()

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="recommendation")
        from edgewise.tasks.ranking_metrics import NDCG, Recall

        return {f"recall@{self.k}": Recall(self.k), f"ndcg@{self.k}": NDCG(self.k)}
