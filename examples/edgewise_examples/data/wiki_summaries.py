"""Extractive summarisation of Wikipedia articles.

The reference summary of an article is its lead section, the text before the first heading. The
document is the text after it, and the model does not see the lead section. The training target of a
sentence is its ROUGE-1 + ROUGE-2 with the lead section, divided by that of the best sentence of the
article. So every sentence has a target, whereas a greedy search (Nallapati et al., SummaRuNNer,
2017) would mark only 144 sentences in the 48 training articles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import starts
from edgewise.app.kinds.language import WikiText2
from edgewise.app.train import Split, TextSplits
from edgewise.app.train.text.packed_texts import PackedTexts
from edgewise.app.train.text.text_data import TextData
from edgewise.app.train.text.tokenizer import Kind, Special, encode_all
from edgewise.layers import Tokens
from edgewise_examples.articles import Article, SummaryBatch
from edgewise_examples.rouge import shares

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL: tuple[Special, ...] = ("pad", "unk", "cls", "sep", "mask")
STOPS = (".", "!", "?")
HEADING = re.compile(r"^ ?(=+(?: =+)*) .* \1 ?$")


@dataclass(frozen=True)
class WikiSummaries(TextData):
    """Articles of WikiText-2 with their lead sections as reference summaries.

    The *validation* file of WikiText-2 is split into training and validation articles. The test
    file is used for testing, and the training file is not used. The inputs of a batch are
    ``(tokens, counts)``: packed sentences, each as ``<cls> sentence <sep>``, and the number of
    sentences of each article ``[B]``. The first sentence of an article is its title. Targets
    ``[S]`` are from 0 to 1; the best sentence of an article has 1.

    Attributes:
        chosen: number of sentences in a summary; articles with fewer sentences are left out.
        max_length: maximum number of tokens in a sentence; longer sentences are truncated.
        val: fraction of the articles for validation; these are the last ones of the file.
        kind, vocab_size, lowercase, tokenizer: see :class:`TextData`.
        batch_size: number of articles per batch.
    """

    kind: Kind = "wordpiece"
    vocab_size: int | None = 8000
    lowercase: bool = True
    batch_size: int = 2
    chosen: int = 3
    max_length: int = 64
    val: float = 0.2

    provides: ClassVar[tuple[str, ...]] = ("vocab_size", "longest_text")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least("chosen", 1, 3)
        self.at_least("max_length", 3, 64)
        self.shares("val")

    def load(self) -> TextSplits:
        rest, beginning, test = WikiText2().read_splits()
        labelled = articles(beginning + rest, self.chosen)
        border = len(labelled) - max(1, round(len(labelled) * self.val))
        by_split = {"train": labelled[:border], "val": labelled[border:]}
        by_split["test"] = articles(test, self.chosen)
        if border < 1 or not by_split["test"]:
            raise ArgumentError(
                "data",
                expected="at least one article each for training, validation and test",
                got=f"{len(labelled)} articles in valid.txt, {len(by_split['test'])} in test.txt",
                remedy="check the files of wikitext-2, or choose another data.val",
            )
        texts = [
            text for article in by_split["train"] for text in (article.title, *article.sentences)
        ]
        tokenizer = self.make_tokenizer(texts, SPECIAL)
        splits = {
            name: self._split(articles_of_split, tokenizer)
            for name, articles_of_split in by_split.items()
        }
        data_sizes = {"vocab_size": tokenizer.get_vocab_size(), "longest_text": self.max_length}
        return TextSplits(
            data_sizes,
            splits["train"],
            splits["val"],
            splits["test"],
            batch_size=self.batch_size,
            tokenizer=tokenizer,
        )

    def _split(self, articles: Sequence[Article], tokenizer: Tokenizer) -> Split:
        packed = Articles.of(tokenizer, articles, self.max_length)
        labels = torch.zeros(len(packed.texts))
        for article, start in zip(articles, starts(packed.sentences.sizes).tolist(), strict=True):
            labels[start + 1 : start + 1 + len(article.sentences)] = torch.tensor(shares(article))
        return Split(len(articles), lambda index: packed.take(index, labels))


@dataclass(frozen=True)
class Articles:
    """Articles with their token ids; the first sentence of each article is its title.

    Attributes:
        texts: packed token ids of all sentences of all articles.
        sentences: indices of the sentences of each article in ``texts``.
        found: the articles themselves.
    """

    texts: PackedTexts
    sentences: PackedTexts
    found: Sequence[Article]

    @classmethod
    def of(cls, tokenizer: Tokenizer, articles: Sequence[Article], longest: int) -> Articles:
        """Return the encoded articles; sentences are truncated to ``longest`` tokens."""
        every = [text for article in articles for text in (article.title, *article.sentences)]
        ids, sizes = encode_all(tokenizer, every, first="cls", last="sep")
        counts = torch.tensor([1 + len(article.sentences) for article in articles])
        texts = PackedTexts(ids, sizes).cut(longest)
        return cls(texts, PackedTexts(torch.arange(len(every)), counts), articles)

    def take(self, index: Tensor, labels: Tensor) -> SummaryBatch:
        """Return the batch of the articles ``index``; ``labels`` ``[S]`` are those of sentences."""
        which, count = self.sentences.take(index)
        scored = torch.ones(len(which), dtype=torch.bool)
        scored[starts(count)] = False  # The first sentence is the title, which has no target.
        return SummaryBatch(
            (Tokens(*self.texts.take(which)), count),
            labels[which][scored],
            select=scored.nonzero()[:, 0],
            articles=tuple(self.found[i] for i in index.tolist()),
        )


def articles(text: str, least: int) -> list[Article]:
    """Return the articles in a text that have a lead section and enough sentences.

    Args:
        text: text in the format of WikiText. Headings are lines such as `` = Title = `` and
            `` = = Section = = ``, a paragraph is one line, and tokens are separated by spaces.
        least: minimum number of sentences after the lead section.
    """
    complete: list[Article] = []
    title, lead, body, in_lead = "", [""], [""], True

    def close() -> None:
        sentences = tuple(s for line in body for s in sentences_of(line))
        summary = " ".join(lead).strip()
        if title and summary and len(sentences) >= least:
            complete.append(Article(title, sentences, summary))

    for line in text.split("\n"):
        heading = HEADING.match(line)
        if heading and heading[1] == "=":
            close()
            title, lead, body, in_lead = line.strip(" ="), [], [], True
        elif heading:
            in_lead = False
        elif line.strip():
            (lead if in_lead else body).append(line.strip())
    close()
    return complete


def sentences_of(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph of tokens separated by spaces.

    A sentence ends with a full stop, question mark or exclamation mark as a token, and optionally a
    closing quote.
    """
    tokens = paragraph.split()
    sentences, sentence = [], list[str]()
    for token, after in pairwise([*tokens, "."]):
        closing = (
            token == '"' and len(sentence) > 1 and sentence[-1] in STOPS and sentence.count('"') % 2
        )
        sentence.append(token)
        opens = after == '"' and sentence.count('"') % 2 == 0
        if (token in STOPS or closing) and (opens or after[0].isupper() or after[0].isdigit()):
            sentences.append(" ".join(sentence))
            sentence = []
    return [*sentences, " ".join(sentence)] if sentence else sentences
