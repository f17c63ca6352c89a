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
    r"""The user's item i among other items, with scores s over a temperature τ.

    .. math:: L = -\log \frac{e^{s_{ui}/τ}}{e^{s_{ui}/τ} + \sum_{j} e^{s_{uj}/τ}}

    In training on drawn items outputs are ``[B, K + M]`` and targets ``[B, K]``, the places of the
    user's own, filled up with -1; j runs over the M others. Where all items are ranked outputs are
    ``[B, items]`` and targets of that shape: 1 for an item that the user is going to choose, 0 for
    another, -1 for one that does not count; j runs over all others that count. The mean is over the
    user's own items.

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
        if target.shape == outputs.shape:
            total = outputs.masked_fill(target < 0, -torch.inf).logsumexp(-1)
            user, item = (target == 1).nonzero(as_tuple=True)
            return (total[user] - outputs[user, item]).mean()
        if target.shape[1] == 1:  # the same, in half the time
            return F.cross_entropy(outputs, target[:, 0], ignore_index=-1)
        # What fills a row up stands for its first place, which is left out of the others anyway.
        place = target.where(target >= 0, target[:, :1]).clamp(min=0)
        own = outputs.gather(1, place)
        others = outputs.scatter(1, place, -torch.inf).logsumexp(-1, keepdim=True)
        return F.softplus(others - own)[target >= 0].mean()  # -log(e^own / (e^own + e^others))

    def count(self, outputs: Tensor, target: Tensor) -> int:
        right = target == 1 if target.shape == outputs.shape else target >= 0
        return int(right.sum())

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="recommendation")
        from edgewise.tasks.ranking_metrics import NDCG, Recall

        return {f"recall@{self.k}": Recall(self.k), f"ndcg@{self.k}": NDCG(self.k)}
