"""Metric: mean ROUGE of summaries over all articles."""

from __future__ import annotations

from collections.abc import Callable

from torchmetrics import MeanMetric
from torchmetrics.functional.text import rouge_score

from edgewise_examples.articles import Article, SummaryBatch
from edgewise_examples.rouge import words

ROUGES = ("rouge1", "rouge2", "rougeL")


class Rouge(MeanMetric):
    """Mean over articles of torchmetrics' ``rouge_score``: F1 without stemming.

    The class ``ROUGEScore`` of torchmetrics is not used, because it fails if processes have
    different numbers of articles.

    Args:
        kind: one of :data:`ROUGES`.
        other: function that returns another summary of an article, to evaluate it instead of the
            model's summary; or ``None``.
    """

    higher_is_better = True  # type: ignore[assignment]

    def __init__(self, kind: str, other: Callable[[Article], str] | None = None) -> None:
        super().__init__()
        self.kind, self.other = kind, other

    def update(self, texts: list[str], batch: SummaryBatch) -> None:  # type: ignore[override]
        """Add the ROUGE of the summaries of a batch."""
        if self.other is not None:
            texts = [self.other(article) for article in batch.articles]
        references = [article.summary for article in batch.articles]
        rouge = rouge_score(
            texts, references, tokenizer=words, normalizer=str, rouge_keys=self.kind
        )
        super().update(rouge[f"{self.kind}_fmeasure"], len(references))
