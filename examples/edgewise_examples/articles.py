"""Articles with summaries, and batches of their sentences."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise.batches import Batch


@dataclass(frozen=True)
class Article:
    """Article: title, sentences of the text, and reference summary."""

    title: str
    sentences: tuple[str, ...]
    summary: str


@dataclass(frozen=True)
class SummaryBatch(Batch):
    """Batch of articles; targets are the values of their sentences, article by article.

    Attributes:
        articles: articles of the batch.
    """

    articles: tuple[Article, ...] = ()
