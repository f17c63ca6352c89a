"""Item recommendation: sampled softmax loss, recall@k and nDCG@k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import require
from edgewise.app.train.task import Task

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Recommendation(Task):
    r"""Recommendation of items to users, with a softmax loss over items.

    .. math:: L = -\log \frac{e^{s_{ui}/τ}}{e^{s_{ui}/τ} + \sum_{j} e^{s_{uj}/τ}}

    Here s are scores, i is a positive item of user u, and the sum is over the negative items j. The
    loss is the mean over all positive items. With sampled negatives, outputs ``[B, candidates]``
    are the scores of the positive and the sampled items of B users. Targets ``[B, positives]`` are
    the column indices of the positive items in the outputs, padded with -1. If all items are
    ranked, outputs and targets are ``[B, items]``, and a target is 1 for a positive item, 0 for a
    negative item and -1 for an ignored item.

    Paper: Wu et al., On the effectiveness of sampled softmax loss for item recommendation, 2022

    Attributes:
        temperature: temperature τ. Lower values give more weight to hard negatives.
        k: number of recommended items in the metrics recall@k and nDCG@k.

    Example:
        >>> import torch
        >>> from edgewise.app.kinds.items import Recommendation
        >>> task = Recommendation(temperature=1.0)
        >>> scores = torch.tensor([[2.0, 0.0, 0.0]])  # one user: a positive item, two negatives
        >>> round(task.loss(scores, torch.tensor([[0]])).item(), 4)
        0.2395
        >>> list(task.metrics())
        ['recall@20', 'ndcg@20']
    """

    temperature: float = 0.1
    k: int = 20

    def __post_init__(self) -> None:
        for name, value, usual in (("temperature", self.temperature, 0.1), ("k", self.k, 20)):
            check_range(f"task.{name}", value, f"choose for example {usual}", above=0)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        outputs = outputs / self.temperature
        if target.shape == outputs.shape:
            others = outputs.masked_fill(target != 0, -torch.inf).logsumexp(-1)
            user, item = (target == 1).nonzero(as_tuple=True)
            return F.softplus(others[user] - outputs[user, item]).mean()
        # cross_entropy gives the same result in half the time.
        if target.shape[1] == 1:
            return F.cross_entropy(outputs, target[:, 0], ignore_index=-1)
        # Padding is replaced by the first column, which is excluded from the negatives anyway.
        columns = target.where(target >= 0, target[:, :1]).clamp(min=0)
        positive_scores = outputs.gather(1, columns)
        others = outputs.scatter(1, columns, -torch.inf).logsumexp(-1, keepdim=True)
        return F.softplus(others - positive_scores)[
            target >= 0
        ].mean()  # -log(e^own / (e^own + e^others))

    def count(self, outputs: Tensor, target: Tensor) -> int:
        right = target == 1 if target.shape == outputs.shape else target >= 0
        return int(right.sum())

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="recommendation")
        from edgewise.app.train.tasks.ranking_metrics import NDCG, Recall

        return {f"recall@{self.k}": Recall(self.k), f"ndcg@{self.k}": NDCG(self.k)}

    def per_example_metrics(self, outputs: Tensor, target: Tensor) -> dict[str, Tensor]:
        metrics: dict[str, Any] = self.metrics()
        values_of_metrics = {
            name: metric.of_users(outputs, target) for name, metric in metrics.items()
        }
        # A user is recognised by the number of held-out items, or by the column of the only one
        # plus 1. 0 means that the user has none.
        user_keys = (target == 1).sum(1) if target.shape == outputs.shape else target[:, 0] + 1
        return {"target": user_keys[user_keys > 0], **values_of_metrics}
