"""Extractive summarisation of Wikipedia's articles: which sentences are in the summary.

Wikipedia's articles begin with a summary of what follows: the lead section, before the first
heading. Here it is the reference, and the text after it the document; the model never sees the
lead. What a sentence is worth in training is how much of the summary it has by itself: its ROUGE-1
and ROUGE-2, by those of the article's best. So every sentence teaches something; of the few that a
greedy search takes (Nallapati et al., SummaRuNNer, 2017) there are 144 in 48 articles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from edgewise.data.splits import Split, TextSplits
from edgewise.data.text.packed_texts import PackedTexts
from edgewise.data.text.text_data import TextData
from edgewise.data.text.tokenizer import Kind, Special, encode_all
from edgewise.data.text.wikitext2 import WikiText2
from edgewise.errors import ArgumentError
from edgewise.layers import Tokens
from edgewise.ragged import starts
from edgewise_examples.articles import Article, SummaryBatch
from edgewise_examples.rouge import shares

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL: tuple[Special, ...] = ("pad", "unk", "cls", "sep", "mask")
STOPS = (".", "!", "?")
HEADING = re.compile(r"^ ?(=+(?: =+)*) .* \1 ?$")


@dataclass(frozen=True)
class WikiSummaries(TextData):
    """WikiText-2's articles, each text as ``<cls> sentence <sep>`` after its title.

    The *validation* file is trained and validated on, and the test file tested on (the published
    training file is not part of it). Batches: inputs ``(tokens, counts [B])``, packed sentences
    with the title as each article's first, and targets ``[S]`` from 0 to 1, the best sentence's.

    Attributes:
        chosen: the fewest sentences of an article; as many make a summary.
        longest: the most tokens that are kept of a sentence.
        val: the share of the articles to validate on, the last ones.
        kind, vocabulary_size, lowercase, tokenizer: see :class:`TextData`.
        batch_size: articles in a batch.

    """

    kind: Kind = "wordpiece"
    vocabulary_size: int | None = 8000
    lowercase: bool = True
    batch_size: int = 2
    chosen: int = 3
    longest: int = 64
    val: float = 0.2

    provides: ClassVar[tuple[str, ...]] = ("vocabulary", "longest")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least("chosen", 1, 3)
        self.at_least("longest", 3, 64)
        self.shares("val")

    def load(self) -> TextSplits:
        rest, beginning, test = WikiText2().parts()
        known = articles(beginning + rest, self.chosen)
        border = len(known) - max(1, round(len(known) * self.val))
        parts = {"train": known[:border], "val": known[border:]}
        parts["test"] = articles(test, self.chosen)
        if border < 1 or not parts["test"]:
            raise ArgumentError(
                "data",
                expected="articles to train, to validate and to test on",
                got=f"{len(known)} in valid.txt and {len(parts['test'])} in test.txt",
                remedy="check the files of wikitext-2",
            )
        texts = [text for article in parts["train"] for text in (article.title, *article.sentences)]
        tokenizer = self.make_tokenizer(texts, SPECIAL)
        splits = {name: self._split(found, tokenizer) for name, found in parts.items()}
        data_sizes = {"vocabulary": tokenizer.get_vocab_size(), "longest": self.longest}
        return TextSplits(
            data_sizes,
            splits["train"],
            splits["val"],
            splits["test"],
            batch_size=self.batch_size,
            tokenizer=tokenizer,
        )

    def _split(self, found: Sequence[Article], tokenizer: Tokenizer) -> Split:
        packed = Articles.of(tokenizer, found, self.longest)
        labels = torch.zeros(len(packed.texts))
        for article, start in zip(found, starts(packed.sentences.sizes).tolist(), strict=True):
            labels[start + 1 : start + 1 + len(article.sentences)] = torch.tensor(shares(article))
        return Split(len(found), lambda index: packed.take(index, labels))


@dataclass(frozen=True)
class Articles:
    """Articles as ids on one packed axis; the title is each one's first sentence.

    Attributes:
        texts: the ids of every sentence.
        sentences: which of these each article has.
        found: the articles.

    """

    texts: PackedTexts
    sentences: PackedTexts
    found: Sequence[Article]

    @classmethod
    def of(cls, tokenizer: Tokenizer, found: Sequence[Article], longest: int) -> Articles:
        """From articles, of whose sentences so many tokens are kept."""
        every = [text for article in found for text in (article.title, *article.sentences)]
        ids, sizes = encode_all(tokenizer, every, first="cls", last="sep")
        counts = torch.tensor([1 + len(article.sentences) for article in found])
        texts = PackedTexts(ids, sizes).cut(longest)
        return cls(texts, PackedTexts(torch.arange(len(every)), counts), found)

    def take(self, index: Tensor, labels: Tensor) -> SummaryBatch:
        """The batch of these articles; labels ``[S]`` are those of all sentences."""
        which, count = self.sentences.take(index)
        scored = torch.ones(len(which), dtype=torch.bool)
        scored[starts(count)] = False  # titles
        return SummaryBatch(
            (Tokens(*self.texts.take(which)), count),
            labels[which][scored],
            select=scored.nonzero()[:, 0],
            articles=tuple(self.found[i] for i in index.tolist()),
        )


def articles(text: str, least: int) -> list[Article]:
    """The articles of a file in WikiText's form that have a lead and at least ``least`` sentences.

    Args:
        text: headings are lines such as `` = Title = `` and `` = = Section = = ``; a paragraph is
            a line, its words and stops between spaces.
        least: of sentences after the lead.
    """
    found: list[Article] = []
    title, lead, body, in_lead = "", [""], [""], True

    def close() -> None:
        sentences = tuple(s for line in body for s in sentences_of(line))
        summary = " ".join(lead).strip()
        if title and summary and len(sentences) >= least:
            found.append(Article(title, sentences, summary))

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
    return found


def sentences_of(paragraph: str) -> list[str]:
    """The sentences of a line, which end with a stop between spaces, and a closing quote if any."""
    tokens = paragraph.split()
    kept, own = [], list[str]()
    for token, after in pairwise([*tokens, "."]):
        closing = token == '"' and len(own) > 1 and own[-1] in STOPS and own.count('"') % 2
        own.append(token)
        opens = after == '"' and own.count('"') % 2 == 0
        if (token in STOPS or closing) and (opens or after[0].isupper() or after[0].isdigit()):
            kept.append(" ".join(own))
            own = []
    return [*kept, " ".join(own)] if own else kept
