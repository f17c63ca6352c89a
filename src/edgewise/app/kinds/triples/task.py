"""Links by relation: softmax over entities, filtered MRR and hits@k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.errors import require
from edgewise.app.train.task import Task

if TYPE_CHECKING:
    from torchmetrics import Metric

HITS = (1, 3, 10)
"""Numbers k of the metrics hits@k."""


@dataclass(frozen=True)
class TriplePrediction(Task):
    r"""Prediction of an entity of a triple, with a softmax loss over entities.

    .. math:: L = -\log \frac{e^{s(h, r, t)}}{\sum_{t'} e^{s(h, r, t')}}

    The sum is over the right answer t and the entities that are ranked with it; in validation and
    test without other right answers. Targets ``[B, K]`` are columns of scores ``[B, M]``, padded
    with -1: first that of the right answer, then those of answers that do not count.

    Example:
        >>> import torch
        >>> from edgewise.app.kinds.triples import TriplePrediction
        >>> scores = torch.tensor([[2.0, 0.0, 9.0]])  # the last entity is another right answer
        >>> round(TriplePrediction().loss(scores, torch.tensor([[0, 2]])).item(), 4)
        0.1269
    """

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        row, nth = (target[:, 1:] >= 0).nonzero(as_tuple=True)
        if len(row):
            columns = row, target[row, nth + 1]
            outputs = outputs.index_put(columns, outputs.new_tensor(-torch.inf))
        return F.cross_entropy(outputs, target[:, 0])

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="links by relation")
        from edgewise.app.kinds.triples.metrics import FilteredHits, FilteredMRR

        return {"mrr": FilteredMRR(), **{f"hits@{k}": FilteredHits(k) for k in HITS}}

    def per_example_metrics(self, outputs: Tensor, target: Tensor) -> dict[str, Tensor]:
        from edgewise.app.kinds.triples.metrics import ranks

        metrics: dict[str, Any] = self.metrics()
        rank = ranks(outputs, target)
        values = {name: metric.of(rank) for name, metric in metrics.items()}
        return {"target": target[:, 0], **values}
