"""Extractive summarisation: binary cross-entropy per sentence, ROUGE and baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.arguments import check_least
from edgewise.base_task import Task
from edgewise.batches import Article
from edgewise.errors import require
from edgewise.layers import ExtractiveSummarizer
from edgewise.rouge import oracle, words
from edgewise.tasks.text import text_model

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Extraction(Task):
    r"""Extractive summarisation, with a logit and a target from 0 to 1 per sentence, ``[S]``.

    .. math:: L = -\frac1S \sum_s y_s \log σ(o_s) + (1 - y_s) \log(1 - σ(o_s))

    ``auc`` compares sentences with targets above 0.5 with the others. On the test split, the
    ``chosen`` sentences with the highest scores, in their original order, are the summary. Its
    ROUGE is compared with that of the first sentences (``lead_``), of the longest ones
    (``longest_``), and of a greedy selection that maximises ROUGE with the reference
    (``oracle_``), an upper bound.

    Paper: Liu and Lapata, Text summarization with pretrained encoders, 2019

    Attributes:
        chosen: Sentences per summary.
        depth: Number of inter-sentence Transformer layers.
        heads: Attention heads of these layers.
        dropout: Dropout of these layers.

    """

    chosen: int = 3
    depth: int = 2
    heads: int = 4
    dropout: float = 0.1

    takes: ClassVar[tuple[str, ...]] = ("longest",)

    def __post_init__(self) -> None:
        for name, least in (("chosen", 1), ("depth", 0), ("heads", 1)):
            check_least(f"task.{name}", getattr(self, name), least, "choose a larger number")

    def complete(self, model: nn.Module, data_sizes: Mapping[str, int]) -> nn.Module:
        trunk = text_model(model, data_sizes)
        return ExtractiveSummarizer(trunk, depth=self.depth, heads=self.heads, dropout=self.dropout)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs, target)

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="summaries")
        from edgewise.tasks.link_metrics import LinkAUC

        return {"auc": LinkAUC()}

    def generation_metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="ROUGE")
        from edgewise.tasks.rouge_metric import ROUGES, Rouge

        def lead(article: Article) -> str:
            return " ".join(article.sentences[: self.chosen])

        @cache  # all variants of ROUGE use it
        def longest(article: Article) -> str:
            long = sorted(article.sentences, key=lambda text: -len(words(text)))[: self.chosen]
            return " ".join(text for text in article.sentences if text in long)

        @cache
        def best(article: Article) -> str:
            return " ".join(article.sentences[i] for i in oracle(article, self.chosen))

        others = {"": None, "lead_": lead, "longest_": longest, "oracle_": best}
        return {f"{who}{kind}": Rouge(kind, of) for who, of in others.items() for kind in ROUGES}

    def generate(self, model: Any, batch: Any) -> list[str]:
        scores = batch.counted(model(*batch.inputs, **batch.keywords))
        parts = scores.split([len(article.sentences) for article in batch.articles])
        best = [part.topk(min(self.chosen, len(part))).indices.tolist() for part in parts]
        return [
            " ".join(article.sentences[i] for i in sorted(chosen))
            for article, chosen in zip(batch.articles, best, strict=True)
        ]
