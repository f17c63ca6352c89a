"""Articles with reference summaries, and batches of them."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise.app.train import Batch


@dataclass(frozen=True)
class Article:
    """Article: its title, the sentences of its text, and its reference summary."""

    title: str
    sentences: tuple[str, ...]
    summary: str


@dataclass(frozen=True)
class SummaryBatch(Batch):
    """Batch of articles; the targets are one number for each sentence, article by article.

    Attributes:
        articles: the articles of the batch.
    """

    articles: tuple[Article, ...] = ()
