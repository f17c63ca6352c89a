r"""Baselines of translation: the target of the nearest source text, and translation word by word.

The nearest source text is the training text with the highest cosine similarity of TF-IDF.

Word by word, each source word :math:`e_i` becomes one target word :math:`f_i`, in the same order.
The Viterbi algorithm finds the words that maximise

.. math:: \sum_{i=1}^{n} \log t(f_i \mid e_i) + λ \sum_{i=1}^{n+1} \log p(f_i \mid f_{i-1})

where :math:`f_0` and :math:`f_{n+1}` stand for the beginning and the end of the text. The
translation probabilities t of IBM Model 1 are estimated from the training texts by
expectation–maximisation; the most probable :data:`CHOICES` target words of each source word are
tried. p are bigrams of the target texts with back-off to unigrams (as in
:mod:`edgewise.app.train.text.baselines`). Words that do not occur in the training texts are
copied, with log t = 0. Words that the recipe's tokenizer does not know are missing in the decoded
texts.

Paper: Brown et al., The mathematics of statistical machine translation: parameter estimation, 1993
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import sparse

from edgewise._utils.errors import ArgumentError
from edgewise.app.train.baseline import Candidate, Writer, batches_of
from edgewise.app.train.batches import WritingBatch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import TextSplits
from edgewise.app.train.text.baselines import LENGTHS, bigrams, texts_of, tf_idf

WEIGHTS = (0.0, 0.3, 0.5, 1.0)
"""Settings: weight λ of the bigrams."""
BACK_OFF = 5.0
"""Weight of the unigram probability in the bigrams."""
STEPS = 8
"""Number of steps of expectation–maximisation."""
CHOICES = 10
"""Number of target words that are tried for each source word."""
MAX_WORDS = 200
"""Maximum number of words of a text that IBM Model 1 reads; it ignores all further words."""
MAX_WORD_PAIRS = 10_000_000
"""Maximum number of pairs of a source and a target word that IBM Model 1 reads.

These pairs fill about 1 GB of memory. IBM Model 1 ignores all further training texts.
"""
OPENING, CLOSING = "([{«„“‘", ".,;:!?…)]}»”’"
WORD = re.compile(
    rf'[{re.escape(OPENING)}"]|\S+?(?=[{re.escape(CLOSING)}"]*(?:\s|$))|[{re.escape(CLOSING)}"]'
)
"""Pattern of a word, or of a punctuation mark at its beginning or end."""
BOUNDARY, UNKNOWN = 0, 1
"""Indices of target words: beginning or end of a text, and a word that is copied."""
NULL = 0
"""Index of the null word: the source of target words that no source word explains."""

Texts = tuple[list[str], list[str]]


def candidates(_recipe: Recipe, splits: TextSplits) -> Iterator[Candidate]:
    """Yield both baselines with each of their settings."""
    read = cache(partial(_training, splits))
    for length, setting in LENGTHS.items():
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
    if not any(map(str.strip, sources)):
        raise ArgumentError(
            "data.vocab_size",
            expected="a vocabulary with tokens of the source texts",
            got="source texts of which no token is known",
            remedy="choose a larger number",
        )
    return sources, targets


def _nearest(read: Callable[[], Texts], splits: TextSplits, length: int) -> Writer:
    sources, targets = read()
    words = tf_idf(length)
    features = words.fit_transform(sources)

    def write(batch: WritingBatch) -> list[str]:
        near = words.transform(texts_of(batch.inputs[0], splits)) @ features.T
        return [targets[i] for i in np.ravel(near.argmax(axis=1))]

    return Writer(write)


def _word_by_word(words: Callable[[], WordByWord], splits: TextSplits, weight: float) -> Writer:
    model = words()
    return Writer(
        lambda batch: [model.translate(text, weight) for text in texts_of(batch.inputs[0], splits)]
    )


@dataclass(frozen=True)
class WordByWord:
    """Translation word by word, with the logarithms of t, a SciPy matrix ``[S, T]``, and of p."""

    sources: dict[str, int]
    targets: list[str]
    translations: Any
    bigrams: Callable[..., np.ndarray]

    @classmethod
    def fitted(cls, sources: Sequence[str], targets: Sequence[str]) -> WordByWord:
        """Estimate all probabilities from training texts and their translations."""
        source_words, target_words = {"": NULL}, {"": BOUNDARY, "<unknown>": UNKNOWN}
        source_ids = _indexed(sources, source_words)
        target_ids = _indexed(targets, target_words)
        bounded = [np.concatenate([[BOUNDARY], ids, [BOUNDARY]]) for ids in target_ids]
        first = np.concatenate([ids[:-1] for ids in bounded])
        second = np.concatenate([ids[1:] for ids in bounded])
        size = len(target_words)
        pairs = sparse.coo_matrix((np.ones(len(first)), (first, second)), (size, size)).tocsr()
        translations = _ibm_model_1(source_ids, target_ids, (len(source_words), size))
        return cls(source_words, list(target_words), translations, bigrams(pairs, BACK_OFF))

    def weighted(self, weight: float, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return ``weight`` times ``bigrams``, which are not computed for a weight of 0."""
        if not weight:
            return np.zeros((len(first), len(second)))
        return weight * self.bigrams(first, second)

    def choices(self, word: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable translations of a word, and their log-probabilities."""
        index = self.sources.get(word, NULL)
        row = self.translations[index]
        if index == NULL or not row.nnz:
            return np.array([UNKNOWN]), np.zeros(1)
        best = np.argsort(-row.data, kind="stable")[:CHOICES]
        return row.indices[best], row.data[best]

    def translate(self, text: str, weight: float) -> str:
        """Translate a text by the Viterbi algorithm, with the weight λ of the bigrams."""
        # For each choice of the last word: the score and words of the best text that ends with it.
        ends, score = np.array([BOUNDARY]), np.zeros(1)
        paths: list[list[str]] = [[]]
        for word in WORD.findall(text):
            following, logs = self.choices(word)
            total = score[:, None] + self.weighted(weight, ends, following)
            best = total.argmax(axis=0)
            paths = [
                [*paths[i], word if end == UNKNOWN else self.targets[end]]
                for i, end in zip(best, following, strict=True)
            ]
            ends, score = following, total.max(axis=0) + logs
        score = score + self.weighted(weight, ends, np.array([BOUNDARY]))[:, 0]
        return joined(paths[score.argmax()])


def joined(words: Sequence[str]) -> str:
    """Return words as a text, without a space before closing or after opening punctuation."""
    text = re.sub(rf" ([{re.escape(CLOSING)}])(?!\S)", r"\1", " ".join(words))
    return re.sub(rf"(?<!\S)([{re.escape(OPENING)}]) ", r"\1", text)


def _indexed(texts: Sequence[str], words: dict[str, int]) -> list[np.ndarray]:
    """Return the indices of the words of each text. New words are added to ``words``."""
    return [
        np.array([words.setdefault(word, len(words)) for word in WORD.findall(text)], dtype=int)
        for text in texts
    ]


def _ibm_model_1(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], shape: tuple[int, int]
) -> Any:
    """Return log translation probabilities t(f | e) of word indices, a sparse ``[S, T]``."""
    # There is one entry for each target position and each source word of the same pair of texts.
    entries: list[tuple[np.ndarray, np.ndarray]] = []
    positions = count = 0
    for source, target in zip(sources, targets, strict=True):
        e, f = np.meshgrid([NULL, *source[:MAX_WORDS]], target[:MAX_WORDS])
        count += e.size
        if entries and count > MAX_WORD_PAIRS:
            break
        position = positions + np.arange(len(e)).repeat(e.shape[1])
        entries.append((e.ravel() * shape[1] + f.ravel(), position))
        positions += len(e)
    entry, position = (np.concatenate(of) for of in zip(*entries, strict=True))
    pair, which = np.unique(entry, return_inverse=True)
    e, f = np.divmod(pair, shape[1])
    t = np.ones(len(pair))
    for _ in range(STEPS):
        weight = t[which]
        counts = np.bincount(which, weight / np.bincount(position, weight)[position])
        t = counts / np.bincount(e, counts)[e]
    return sparse.csr_matrix((np.log(t), (e, f)), shape)
