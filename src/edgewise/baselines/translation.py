r"""Baselines of translation: the target of the nearest source text, and translation word by word.

The nearest source text is the training text with the highest cosine similarity of TF-IDF.

Word by word, each source word :math:`e_i` becomes one target word :math:`f_i`, in the same order.
The Viterbi algorithm finds the words that maximise

.. math:: \sum_i \log t(f_i \mid e_i) + λ \log p(f_i \mid f_{i-1})

where t are the translation probabilities of IBM Model 1, estimated from the training texts by
expectation–maximisation, and p are bigrams of the target texts with back-off to unigrams (as in
:mod:`edgewise.baselines.language`). Unknown words are copied.

Paper: Brown et al., The mathematics of statistical machine translation: parameter estimation, 1993
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from edgewise.baselines.candidate import Candidate, Writer, batches_of
from edgewise.baselines.language import probability
from edgewise.baselines.texts import LENGTHS, WORD, texts_of, tf_idf
from edgewise.batches import WritingBatch
from edgewise.data import TextSplits
from edgewise.errors import require
from edgewise.recipes.recipe import Recipe
from edgewise.runs.preprocessing import Preprocessing

WEIGHTS = (0.0, 0.3, 0.5, 1.0)
"""Settings: weight λ of the bigrams."""
BACK_OFF = 5.0
"""Weight of the unigram probability in the bigrams."""
STEPS = 8
"""Number of steps of expectation–maximisation."""
CHOICES = 10
"""Number of target words that are tried for each source word."""
MAX_WORD_PAIRS = 10_000_000
"""Maximum number of pairs of words from which the translation probabilities are estimated.

They fill about 1 GB of memory. The pairs are those of the first training texts.
"""
QUICK = 2000
"""Maximum number of training texts with which ``edgewise train`` evaluates baselines."""
BOUNDARY, UNKNOWN = 0, 1
"""Indices of target words: beginning or end of a text, and a word that is copied."""
EMPTY = 0
"""Index of the empty source word, from which target words without a source word come."""

Texts = tuple[list[str], list[str]]


def is_large(run: Preprocessing) -> bool:
    """Return whether the baselines for these data take more than about ten seconds."""
    return run.train_examples > QUICK


def candidates(_recipe: Recipe, splits: TextSplits) -> Iterator[Candidate]:
    """Yield each baseline with each setting; all use the same training texts."""
    require("sklearn", extra="train", purpose="TF-IDF and counts of words")
    read = cache(partial(_training, splits))
    for length in LENGTHS:
        setting = "pairs of words" if length > 1 else "words"
        yield Candidate("nearest source text", setting, partial(_nearest, read, splits, length))
    words = cache(lambda: WordByWord.fitted(*read()))
    for weight in WEIGHTS:
        fit = partial(_word_by_word, words, splits, weight)
        yield Candidate("word-by-word translation", f"λ = {weight:g}", fit)


def _training(splits: TextSplits) -> Texts:
    sources: list[str] = []
    targets: list[str] = []
    for batch in batches_of(splits.train):
        assert isinstance(batch, WritingBatch)
        sources += texts_of(batch.inputs[0], splits)
        targets += batch.references
    return sources, targets


def _nearest(read: Callable[[], Texts], splits: TextSplits, length: int) -> Writer:
    sources, targets = read()
    words = tf_idf(length)
    known = words.fit_transform(sources)

    def write(batch: WritingBatch) -> list[str]:
        near = words.transform(texts_of(batch.inputs[0], splits)) @ known.T
        return [targets[i] for i in np.ravel(near.argmax(axis=1))]

    return Writer(write)


def _word_by_word(words: Callable[[], WordByWord], splits: TextSplits, weight: float) -> Writer:
    model = words()
    return Writer(
        lambda batch: [model.translate(text, weight) for text in texts_of(batch.inputs[0], splits)]
    )


@dataclass(frozen=True)
class WordByWord:
    """Translation word by word.

    Attributes:
        sources: index of each source word.
        targets: target words, in the order of their indices.
        translations: logarithms of the translation probabilities t, a SciPy matrix ``[S, T]``.
        pairs: counts of pairs of successive target words, a SciPy matrix ``[T, T]``.
    """

    sources: dict[str, int]
    targets: list[str]
    translations: Any
    pairs: Any

    @classmethod
    def fitted(cls, sources: Sequence[str], targets: Sequence[str]) -> WordByWord:
        """Estimate all probabilities from training texts and their translations."""
        from scipy import sparse

        source_words, target_words = {"": EMPTY}, {"": BOUNDARY, "<unknown>": UNKNOWN}
        source_ids = _indexed(sources, source_words)
        target_ids = _indexed(targets, target_words)
        bounded = [np.concatenate([[BOUNDARY], ids, [BOUNDARY]]) for ids in target_ids]
        before = np.concatenate([ids[:-1] for ids in bounded])
        after = np.concatenate([ids[1:] for ids in bounded])
        size = len(target_words)
        pairs = sparse.coo_matrix((np.ones(len(before)), (before, after)), (size, size)).tocsr()
        shape = len(source_words), size
        return cls(
            source_words, list(target_words), _ibm_model_1(source_ids, target_ids, shape), pairs
        )

    @cached_property
    def unigrams(self) -> np.ndarray:
        """Probability of each target word, ``[T]``."""
        return probability(self.pairs)

    @cached_property
    def totals(self) -> np.ndarray:
        """Number of pairs that begin with each target word, ``[T]``."""
        return np.ravel(self.pairs.sum(axis=1))

    def bigrams(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Return log-probabilities ``[A, B]`` of the words ``after [B]`` after ``before [A]``."""
        found = self.pairs[before][:, after].toarray() + BACK_OFF * self.unigrams[after]
        logs: np.ndarray = np.log(found / (self.totals[before, None] + BACK_OFF))
        return logs

    def choices(self, word: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable translations of a word, and their log-probabilities."""
        index = self.sources.get(word, EMPTY)
        row = self.translations[index]
        if index == EMPTY or not row.nnz:
            return np.array([UNKNOWN]), np.zeros(1)
        best = np.argsort(-row.data, kind="stable")[:CHOICES]
        return row.indices[best], row.data[best]

    def translate(self, text: str, weight: float) -> str:
        """Translate a text by the Viterbi algorithm, with the weight λ of the bigrams."""
        words = WORD.findall(text)
        # Best path to each choice of the last word: its score, and its words.
        ends, score = np.array([BOUNDARY]), np.zeros(1)
        paths: list[list[str]] = [[]]
        for word in words:
            following, logs = self.choices(word)
            total = score[:, None] + weight * self.bigrams(ends, following)
            best = total.argmax(axis=0)
            paths = [
                [*paths[i], word if end == UNKNOWN else self.targets[end]]
                for i, end in zip(best, following, strict=True)
            ]
            ends, score = following, total.max(axis=0) + logs
        score = score + weight * self.bigrams(ends, np.array([BOUNDARY]))[:, 0]
        return " ".join(paths[score.argmax()])


def _indexed(texts: Sequence[str], words: dict[str, int]) -> list[np.ndarray]:
    """Return the indices of the words of each text. New words are added to ``words``."""
    return [
        np.array([words.setdefault(word, len(words)) for word in WORD.findall(text)], dtype=int)
        for text in texts
    ]


def _ibm_model_1(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], shape: tuple[int, int]
) -> Any:
    """Return the logarithms of the translation probabilities t(f | e), a SciPy matrix ``[S, T]``.

    Args:
        sources: word indices of each source text, without the empty word.
        targets: word indices of each target text.
        shape: numbers of source and target words, (S, T).
    """
    from scipy import sparse

    # One entry for each pair of a target word, at a place in the texts, and a source word.
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    places = count = 0
    for source, target in zip(sources, targets, strict=True):
        count += (len(source) + 1) * len(target)
        if parts and count > MAX_WORD_PAIRS:
            break
        e, f = np.meshgrid([EMPTY, *source], target)
        place = np.arange(places, places + len(target)).repeat(len(source) + 1)
        parts.append((e.ravel() * shape[1] + f.ravel(), place))
        places += len(target)
    entry, place = (np.concatenate(of) for of in zip(*parts, strict=True))
    pair, which = np.unique(entry, return_inverse=True)
    e, f = np.divmod(pair, shape[1])
    t = np.ones(len(pair))
    for _ in range(STEPS):
        weight = t[which]
        counts = np.bincount(which, weight / np.bincount(place, weight)[place])
        t = counts / np.bincount(e, counts)[e]
    return sparse.csr_matrix((np.log(t), (e, f)), shape)
