r"""recall@k and nDCG@k of rankings: how good the k best items of each user are, on average.

- recall@k: the share of the user's items that are among them;
- nDCG@k: :math:`\sum_r [\text{item at rank } r \text{ is the user's}] / \log_2(r + 1)`, over what
  the best order would give (Järvelin and Kekäläinen, 2002).

Not torchmetrics' retrieval metrics: they keep every score, target and user until the end (24 GB on
Gowalla), take 8 ms a user, and average an item's gain over those that score the same.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torchmetrics import Metric


class RankingMetric(Metric):
    """The mean over users with an item to find."""

    full_state_update = False
    total: Tensor
    users: Tensor

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        self.add_state("total", torch.tensor(0.0, dtype=torch.double), dist_reduce_fx="sum")
        self.add_state("users", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add scores ``[B, M]`` and targets of that shape, or ``[B, K]``: places of the right ones.

        Targets of that shape are 1 for the user's items, 0 for others and -1 for those that do not
        count. Of the places, filled up with -1, the first is to be found, and the others do not
        count.
        """
        if target.shape != outputs.shape:
            own = outputs.gather(1, target.clamp(min=0))
            # A count is several times as fast as the k best; no item is its own rival.
            rivals = (outputs > own[:, :1]).sum(1)
            rank = rivals - ((own > own[:, :1]) & (target >= 0)).sum(1)
            found = rank[:, None] == torch.arange(self.k, device=rank.device)
            items = (target[:, 0] >= 0).long()
        else:
            best = outputs.masked_fill(target < 0, -torch.inf).topk(min(self.k, outputs.shape[1]))
            found = target.gather(1, best.indices) == 1
            items = (target == 1).sum(1)
        asked = items > 0
        self.total += self.of(found[asked].double(), items[asked]).sum()
        self.users += asked.sum()

    @abstractmethod
    def of(self, found: Tensor, items: Tensor) -> Tensor:
        """The value ``[B]`` of each user.

        Args:
            found: ``[B, k]``, 1 where the item of that rank is the user's.
            items: ``[B]``, how many are.

        """

    def compute(self) -> Tensor:
        return self.total / self.users


class Recall(RankingMetric):
    """recall@k."""

    def of(self, found: Tensor, items: Tensor) -> Tensor:
        return found.sum(1) / items


class NDCG(RankingMetric):
    """nDCG@k."""

    def of(self, found: Tensor, items: Tensor) -> Tensor:
        rank = torch.arange(found.shape[1], device=found.device)
        gain = 1 / (rank + 2.0).double().log2()
        best = gain.cumsum(0)[items.clamp(max=len(gain)) - 1]
        return (found * gain).sum(1) / best
