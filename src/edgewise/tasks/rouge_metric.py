"""ROUGE of summaries, averaged over articles."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torchmetrics import Metric

from edgewise.batches import Article, SummaryBatch
from edgewise.rouge import rouge_l, rouge_n

ROUGES: dict[str, Callable[[str, str], float]] = {
    "rouge1": lambda written, wanted: rouge_n(written, wanted, 1),
    "rouge2": lambda written, wanted: rouge_n(written, wanted, 2),
    "rougeL": rouge_l,
}


class Rouge(Metric):
    """The mean over articles.

    Args:
        kind: one of :data:`ROUGES`.
        other: a summary to be measured in place of what the model has chosen.
    """

    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, kind: str, other: Callable[[Article], str] | None = None) -> None:
        super().__init__()
        self.kind, self.other = kind, other
        self.add_state("total", torch.tensor(0.0, dtype=torch.double), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, texts: list[str], batch: SummaryBatch) -> None:
        """Add the summaries of a batch."""
        for text, article in zip(texts, batch.articles, strict=True):
            written = text if self.other is None else self.other(article)
            self.total += ROUGES[self.kind](written, article.summary)
            self.count += 1

    def compute(self) -> Tensor:
        return self.total / self.count
