"""Extractive summarisation: the model, and the task with its loss and ROUGE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import require
from edgewise.app.train import Task
from edgewise.app.train.tasks.text import text_model
from edgewise.encodings import Sinusoidal, packed_positions
from edgewise.graphs import batch, complete
from edgewise.graphs.batch import Sizes
from edgewise.layers import Pool, TextModel, Tokens, TransformerLayer
from edgewise_examples.articles import Article
from edgewise_examples.rouge import oracle, words

if TYPE_CHECKING:
    from torchmetrics import Metric


class ExtractiveSummarizer(nn.Module):
    """Extractive summarisation model with one logit per sentence (BERTSUM).

    A text model encodes each sentence. A second Transformer then attends over the sentences of an
    article, each given by the hidden state of its first token and its position in the article (Liu
    and Lapata, Text summarization with pretrained encoders, 2019). Unlike in the paper, the second
    Transformer also gets the logarithm of the number of tokens, because long sentences have more
    content, and attention cannot count tokens.

    Args:
        trunk: text model for single sentences; its language modelling head is removed.
        depth: number of layers of the second Transformer.
        heads: number of attention heads of these layers.
        dropout: dropout rate of these layers.
    """

    def __init__(self, trunk: TextModel, *, depth: int, heads: int, dropout: float) -> None:
        super().__init__()
        trunk.head = None
        width = trunk.width
        self.trunk, self.pool, self.positions = trunk, Pool("class"), Sinusoidal(width)
        self.length = nn.Linear(1, width)
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, 2 * width, act="gelu", order="pre", dropout=dropout)
            for _ in range(depth)
        )
        self.output = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, tokens: Tokens, counts: Sizes) -> Tensor:
        """Return logits ``[S]`` for the S sentences of all articles.

        ``counts`` holds the number of sentences of each article.
        """
        sizes = tokens.lengths()
        x = self.pool(tokens.states(self.trunk), sizes)
        x = x + self.length(torch.as_tensor(sizes).to(x).log()[:, None])
        x = self.positions(x, packed_positions(counts).to(x.device))
        graph = batch(complete(), counts)
        for layer in self.layers:
            x = layer(x, graph)
        logits: Tensor = self.output(x)
        return logits[..., 0]


@dataclass(frozen=True)
class Extraction(Task):
    r"""Extractive summarisation: choosing sentences of an article as its summary.

    Outputs are logits o ``[S]`` of S sentences, and targets y are numbers from 0 to 1:

    .. math:: L = -\frac1S \sum_s y_s \log σ(o_s) + (1 - y_s) \log(1 - σ(o_s))

    The metric ``auc`` is the ROC AUC, where sentences with a target above 0.5 are positive. On the
    test set, the summary consists of the ``chosen`` sentences with the highest scores, in the order
    of the text. Its ROUGE is compared with that of other summaries with as many sentences:
    ``lead_`` marks the first sentences, ``longest_`` the longest ones, and ``oracle_`` those that a
    greedy search with the reference finds. The last is nearly an upper bound.

    Paper: Liu and Lapata, Text summarization with pretrained encoders, 2019

    Attributes:
        chosen: number of sentences in a summary.
        depth: number of layers over the sentences of an article.
        heads: number of attention heads of these layers.
        dropout: dropout rate of these layers.
    """

    chosen: int = 3
    depth: int = 2
    heads: int = 4
    dropout: float = 0.1

    takes: ClassVar[tuple[str, ...]] = ("longest_text",)

    def __post_init__(self) -> None:
        for name, least in (("chosen", 1), ("depth", 0), ("heads", 1)):
            check_range(f"task.{name}", getattr(self, name), "choose a larger number", least=least)

    def complete(self, model: nn.Module, data_sizes: Mapping[str, int]) -> nn.Module:
        trunk = text_model(model, data_sizes)
        return ExtractiveSummarizer(trunk, depth=self.depth, heads=self.heads, dropout=self.dropout)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs, target)

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="summaries")
        from edgewise.app.kinds.links.metrics import LinkAUC

        return {"auc": LinkAUC()}

    def generation_metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="ROUGE")
        from edgewise_examples.tasks.rouge_metric import ROUGES, Rouge

        def lead(article: Article) -> str:
            return " ".join(article.sentences[: self.chosen])

        @cache  # It is called again for each kind of ROUGE.
        def longest(article: Article) -> str:
            long = sorted(article.sentences, key=lambda text: -len(words(text)))[: self.chosen]
            return " ".join(text for text in article.sentences if text in long)

        @cache
        def best(article: Article) -> str:
            return " ".join(article.sentences[i] for i in oracle(article, self.chosen))

        others = {"": None, "lead_": lead, "longest_": longest, "oracle_": best}
        return {f"{who}{kind}": Rouge(kind, of) for who, of in others.items() for kind in ROUGES}

    def generate(self, model: Any, batch: Any) -> list[str]:
        scores = batch.select_outputs(model(*batch.inputs, **batch.keywords))
        scores_by_article = scores.split([len(article.sentences) for article in batch.articles])
        best = [
            article_scores.topk(min(self.chosen, len(article_scores))).indices.tolist()
            for article_scores in scores_by_article
        ]
        return [
            " ".join(article.sentences[i] for i in sorted(chosen))
            for article, chosen in zip(batch.articles, best, strict=True)
        ]
