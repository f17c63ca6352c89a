"""Articles with summaries, and batches of their sentences."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise.batches import Batch


@dataclass(frozen=True)
class Article:
    """A title, the sentences of the text, and its summary."""

    title: str
    sentences: tuple[str, ...]
    summary: str


@dataclass(frozen=True)
class SummaryBatch(Batch):
    """A batch of articles.

    Attributes:
        articles: what its sentences are from; the targets are these, one article after the other.

    """

    articles: tuple[Article, ...] = ()
