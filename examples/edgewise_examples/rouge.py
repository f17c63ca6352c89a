"""The sentences that a greedy search for ROUGE takes: labels of summaries, and what can be reached.

ROUGE counts the runs of words that two texts share (Lin, 2004); F1, without stemming. Unknown
words, which WikiText writes as ``<unk>``, count as none. torchmetrics' ROUGE, which measures what a
model writes, has no score of bags that grow by a sentence at a time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from edgewise_examples.articles import Article

Grams = Counter[tuple[str, ...]]


def words(text: str) -> list[str]:
    """Runs of letters and digits, in lower case."""
    return re.findall(r"[a-z0-9]+", text.lower().replace("<unk>", " "))


def grams(of: Sequence[str], n: int) -> Grams:
    """How often each run of n words is there."""
    return Counter(zip(*(of[i:] for i in range(n)), strict=False))


def score(written: Grams, wanted: Grams) -> float:
    """F1 of two bags: of what they share, each as often as in the one that has it less often."""
    shared = (written & wanted).total()
    return 2 * shared / (written.total() + wanted.total()) if shared else 0.0


def oracle(article: Article, most: int) -> list[int]:
    """The sentences, in their order, that a greedy search for ROUGE-1 + ROUGE-2 takes."""
    wanted = [grams(words(article.summary), n) for n in (1, 2)]
    own = [[grams(words(text), n) for n in (1, 2)] for text in article.sentences]
    taken: list[int] = []
    held: list[Grams] = [Counter(), Counter()]
    best = 0.0
    while len(taken) < most:
        gains = {
            i: sum(score(held[n] + own[i][n], wanted[n]) for n in (0, 1))
            for i in range(len(own))
            if i not in taken
        }
        place = max(gains, key=gains.__getitem__, default=-1)
        if place < 0 or gains[place] <= best:
            break
        best = gains[place]
        taken.append(place)
        held = [held[n] + own[place][n] for n in (0, 1)]
    return sorted(taken)


def shares(article: Article) -> list[float]:
    """ROUGE-1 + ROUGE-2 of each sentence by itself, by those of the best one: from 0 to 1."""
    wanted = [grams(words(article.summary), n) for n in (1, 2)]
    found = [
        sum(score(grams(words(text), n), wanted[n - 1]) for n in (1, 2))
        for text in article.sentences
    ]
    return [one / max(*found, 1e-9) for one in found]
