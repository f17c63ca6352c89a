r"""AUC, hits@k, MRR and recall@k of link prediction.

Let M be the number of non-edges, and r_e the number of non-edges with a higher score than edge e,
plus half the number of non-edges with the same score. Then:

- AUC (area under the ROC curve) is the mean of :math:`1 - r_e / M` over edges: the probability that
  a random edge has a higher score than a random non-edge.
- hits@k is the fraction of edges with a higher score than the k-th best non-edge (Hu et al., Open
  Graph Benchmark, 2020).
- MRR (mean reciprocal rank) is the mean of :math:`1 / (1 + r_e)` over edges.
- recall@k is the fraction of a node's held-out links that are among its k best new neighbours,
  averaged over nodes.

torchmetrics is not used. Its BinaryAUROC applies a sigmoid, which makes high scores equal in
float32 (for scores around 30, AUC 0.743 instead of 0.774). Its retrieval metrics rank the items of
one query, not each edge among all non-edges.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from edgewise.app.train.batches import LinkBatch


class LinkMetric(Metric):
    """Base class of metrics that collect the scores of edges and non-edges."""

    full_state_update = False
    higher_is_better = True
    links: list[Tensor]
    others: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("links", [], dist_reduce_fx="cat")
        self.add_state("others", [], dist_reduce_fx="cat")

    def update(self, outputs: Tensor, target: Tensor) -> None:
        """Add scores ``[M]`` of pairs, and targets ``[M]``: 1 for an edge, 0 for a non-edge."""
        link = target > 0.5
        self.links.append(outputs[link])
        self.others.append(outputs[~link])

    def _scores(self) -> tuple[Tensor, Tensor]:
        """Return the scores of edges, and the sorted scores of non-edges, in float64."""
        return dim_zero_cat(self.links).double(), dim_zero_cat(self.others).double().sort().values

    def _above(self) -> tuple[Tensor, int]:
        """Return, for each edge, the number of non-edges above it, r_e; and their number M."""
        links, others = self._scores()
        below = torch.searchsorted(others, links)
        not_above = torch.searchsorted(others, links, right=True)
        return len(others) - (below + not_above).double() / 2, len(others)


class LinkAUC(LinkMetric):
    """Area under the ROC curve; 0.5 for random scores."""

    def compute(self) -> Tensor:
        above, count = self._above()
        return (1 - above / count).mean()


class LinkMRR(LinkMetric):
    """Mean reciprocal rank of each edge among all non-edges."""

    def compute(self) -> Tensor:
        above, _ = self._above()
        return (1 / (1 + above)).mean()


class LinkHits(LinkMetric):
    """Fraction of edges that score above the k-th best non-edge; 1 with fewer than k non-edges."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def compute(self) -> Tensor:
        links, others = self._scores()
        if len(others) < self.k:
            return torch.ones((), dtype=torch.double)
        return (links > others[-self.k]).double().mean()


class LinkRecall(Metric):
    """Fraction of a node's held-out links among its proposed links, averaged over nodes."""

    full_state_update = False
    higher_is_better = True
    total: Tensor
    nodes: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0.0, dtype=torch.double), dist_reduce_fx="sum")
        self.add_state("nodes", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, proposed: tuple[Tensor, Tensor], batch: LinkBatch) -> None:
        """Add nodes ``[B]`` and their proposed neighbours ``[B, k]``, from ``generate``."""
        nodes, neighbours = proposed
        links = batch.inputs[0][:, batch.target > 0.5]
        links = torch.cat([links, links.flip(0)], dim=1)
        count = max(batch.left.stop, batch.right.stop)
        is_link = torch.isin(nodes[:, None] * count + neighbours, links[0] * count + links[1])
        num_links = torch.bincount(links[0], minlength=count)[nodes]
        self.total += (is_link.sum(1).double() / num_links).sum()
        self.nodes += len(nodes)

    def compute(self) -> Tensor:
        return self.total / self.nodes
