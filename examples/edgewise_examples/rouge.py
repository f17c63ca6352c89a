"""ROUGE of single sentences, and greedy selection of the sentences with the highest ROUGE.

ROUGE compares the n-grams of two texts (Lin, 2004), here by F1 and without stemming. Unknown words,
``<unk>`` in WikiText, are removed. The ROUGE of torchmetrics is not used here, because it cannot
score a summary to which one sentence at a time is added.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from edgewise_examples.articles import Article

Grams = Counter[tuple[str, ...]]


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without unknown words."""
    return re.findall(r"[a-z0-9]+", text.lower().replace("<unk>", " "))


def grams(of: Sequence[str], n: int) -> Grams:
    """Return the number of times that each n-gram occurs in a list of words."""
    return Counter(zip(*(of[i:] for i in range(n)), strict=False))


def score(written: Grams, reference: Grams) -> float:
    """Return the F1 score of two texts given by the counts of their n-grams."""
    shared = (written & reference).total()
    return 2 * shared / (written.total() + reference.total()) if shared else 0.0


def oracle(article: Article, most: int) -> list[int]:
    """Return the indices of sentences that greedily maximise ROUGE-1 + ROUGE-2, sorted.

    Args:
        article: article with its reference summary.
        most: maximum number of sentences.
    """
    reference = [grams(words(article.summary), n) for n in (1, 2)]
    sentence_grams = [[grams(words(text), n) for n in (1, 2)] for text in article.sentences]
    taken: list[int] = []
    held: list[Grams] = [Counter(), Counter()]
    best = 0.0
    while len(taken) < most:
        gains = {
            i: sum(score(held[n] + sentence_grams[i][n], reference[n]) for n in (0, 1))
            for i in range(len(sentence_grams))
            if i not in taken
        }
        sentence = max(gains, key=gains.__getitem__, default=-1)
        if sentence < 0 or gains[sentence] <= best:
            break
        best = gains[sentence]
        taken.append(sentence)
        held = [held[n] + sentence_grams[sentence][n] for n in (0, 1)]
    return sorted(taken)


def shares(article: Article) -> list[float]:
    """Return ROUGE-1 + ROUGE-2 of each sentence, divided by that of the article's best sentence."""
    reference = [grams(words(article.summary), n) for n in (1, 2)]
    scores = [
        sum(score(grams(words(text), n), reference[n - 1]) for n in (1, 2))
        for text in article.sentences
    ]
    return [rouge / max(*scores, 1e-9) for rouge in scores]
