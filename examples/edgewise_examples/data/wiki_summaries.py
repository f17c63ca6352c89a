"""Extractive summarisation of Wikipedia articles.

The lead section of an article, before the first heading, is the reference summary, and the text
after it is the document; the model does not see the lead. The training target of a sentence is its
ROUGE-1 + ROUGE-2 with the lead, divided by that of the best sentence of the article. Every sentence
has a target; a greedy search (Nallapati et al., SummaRuNNer, 2017) selects only 144 sentences in 48
articles.
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
from edgewise.data.text.long_texts import WikiText2
from edgewise.data.text.packed_texts import PackedTexts
from edgewise.data.text.text_data import TextData
from edgewise.data.text.tokenizer import Kind, Special, encode_all
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
    """Articles of WikiText-2, with each sentence as ``<cls> sentence <sep>``.

    The *validation* file is split into training and validation articles, and the test file is used
    for testing; the published training file is not used. Batches have inputs ``(tokens, counts
    [B])``, packed sentences of which the first of each article is the title, and targets ``[S]``
    from 0 to 1, which is the best sentence.

    Attributes:
        chosen: minimum number of sentences of an article, and number of sentences of a summary.
        max_length: maximum number of tokens of a sentence; longer ones are truncated.
        val: fraction of articles for validation, taken from the end of the file.
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
        rest, beginning, test = WikiText2().parts()
        known = articles(beginning + rest, self.chosen)
        border = len(known) - max(1, round(len(known) * self.val))
        parts = {"train": known[:border], "val": known[border:]}
        parts["test"] = articles(test, self.chosen)
        if border < 1 or not parts["test"]:
            raise ArgumentError(
                "data",
                expected="articles for training, validation and test",
                got=f"{len(known)} in valid.txt and {len(parts['test'])} in test.txt",
                remedy="check the files of wikitext-2",
            )
        texts = [text for article in parts["train"] for text in (article.title, *article.sentences)]
        tokenizer = self.make_tokenizer(texts, SPECIAL)
        splits = {name: self._split(found, tokenizer) for name, found in parts.items()}
        data_sizes = {"vocab_size": tokenizer.get_vocab_size(), "longest_text": self.max_length}
        return TextSplits(
            data_sizes,
            splits["train"],
            splits["val"],
            splits["test"],
            batch_size=self.batch_size,
            tokenizer=tokenizer,
        )

    def _split(self, found: Sequence[Article], tokenizer: Tokenizer) -> Split:
        packed = Articles.of(tokenizer, found, self.max_length)
        labels = torch.zeros(len(packed.texts))
        for article, start in zip(found, starts(packed.sentences.sizes).tolist(), strict=True):
            labels[start + 1 : start + 1 + len(article.sentences)] = torch.tensor(shares(article))
        return Split(len(found), lambda index: packed.take(index, labels))


@dataclass(frozen=True)
class Articles:
    """Packed token ids of articles; the title is the first sentence of an article.

    Attributes:
        texts: token ids of all sentences.
        sentences: indices of the sentences of each article.
        found: articles.
    """

    texts: PackedTexts
    sentences: PackedTexts
    found: Sequence[Article]

    @classmethod
    def of(cls, tokenizer: Tokenizer, found: Sequence[Article], longest: int) -> Articles:
        """Encode articles, with sentences truncated to ``longest`` tokens."""
        every = [text for article in found for text in (article.title, *article.sentences)]
        ids, sizes = encode_all(tokenizer, every, first="cls", last="sep")
        counts = torch.tensor([1 + len(article.sentences) for article in found])
        texts = PackedTexts(ids, sizes).cut(longest)
        return cls(texts, PackedTexts(torch.arange(len(every)), counts), found)

    def take(self, index: Tensor, labels: Tensor) -> SummaryBatch:
        """Return a batch of articles, given the labels ``[S]`` of all sentences."""
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
    """Return the articles of a file that have a lead and enough sentences.

    Args:
        text: text in the format of WikiText, with headings such as `` = Title = `` and
            `` = = Section = = ``, and paragraphs on one line, tokens separated by spaces.
        least: minimum number of sentences after the lead.
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
    """Split a line into sentences, which end with a stop token and optionally a closing quote."""
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
