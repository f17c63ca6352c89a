r"""AUC, hits@k and MRR of links: how well edges are told from other pairs, by their scores.

With r_e the number of non-edges that score above edge e, and half of those that score the same:

- area under the ROC curve, the mean of :math:`1 - r_e / M`: a random edge beats a random non-edge;
- hits@k, the share of edges that score above the k-th best non-edge (Hu et al., Open Graph
  Benchmark, 2020);
- mean reciprocal rank, the mean of :math:`1 / (1 + r_e)`, against all M non-edges at once.

Not torchmetrics': its BinaryAUROC squashes scores by a sigmoid, where float32 makes high ones equal
(0.743 for 0.774 with scores around 30), and its retrieval metrics rank the items of one query, not
every edge among all non-edges.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat


class LinkMetric(Metric):
    """Keeps the scores of edges and of non-edges until :meth:`compute`."""

    full_state_update = False
    links: list[Tensor]
    others: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("links", [], dist_reduce_fx="cat")
        self.add_state("others", [], dist_reduce_fx="cat")

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add scores ``[M]`` and 1 for an edge, 0 for none."""
        link = target > 0.5
        self.links.append(outputs[link])
        self.others.append(outputs[~link])

    def _scores(self) -> tuple[Tensor, Tensor]:
        """The edges' scores, and the others' sorted; both in float64, where no two run together."""
        return dim_zero_cat(self.links).double(), dim_zero_cat(self.others).double().sort().values

    def _above(self) -> tuple[Tensor, int]:
        """The r of each edge, and M."""
        links, others = self._scores()
        below = torch.searchsorted(others, links)
        not_above = torch.searchsorted(others, links, right=True)
        return len(others) - (below + not_above).double() / 2, len(others)


class LinkAUC(LinkMetric):
    """The area under the ROC curve; a half where scores tell nothing."""

    def compute(self) -> Tensor:
        above, count = self._above()
        return (1 - above / count).mean()


class LinkMRR(LinkMetric):
    """The mean reciprocal rank."""

    def compute(self) -> Tensor:
        above, _ = self._above()
        return (1 / (1 + above)).mean()


class LinkHits(LinkMetric):
    """The share of edges above the k-th best non-edge; of all of them where there are fewer."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def compute(self) -> Tensor:
        links, others = self._scores()
        if len(others) < self.k:
            return torch.ones((), dtype=torch.double)
        return (links > others[-self.k]).double().mean()
