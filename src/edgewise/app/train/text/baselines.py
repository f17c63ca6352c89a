"""Features and bigram model that baselines on texts share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from edgewise.app.train.splits import TextSplits
from edgewise.layers import Tokens

LENGTHS = {1: "words", 2: "pairs of words"}
"""Settings: maximum number of successive words in a feature of TF-IDF, and the setting's name."""


def texts_of(tokens: Tokens, splits: TextSplits) -> list[str]:
    """Return the texts of a batch, decoded without special tokens."""
    return list(splits.tokenizer.decode_batch(ids_of(tokens)))


def ids_of(tokens: Tokens) -> list[list[int]]:
    """Return the token ids of each text, without padding."""
    if tokens.sizes is not None:
        return [part.tolist() for part in tokens.ids.split(tokens.sizes.tolist())]
    if tokens.mask is None:
        rows: list[list[int]] = tokens.ids.tolist()
        return rows
    return [row[kept > 0].tolist() for row, kept in zip(tokens.ids, tokens.mask, strict=True)]


def tf_idf(length: int) -> Any:
    """Return a vectoriser of scikit-learn for TF-IDF of up to ``length`` successive words."""
    return TfidfVectorizer(ngram_range=(1, length), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")


def probability(pairs: Any) -> np.ndarray:
    """Return the unigram probability of each token, ``[V]``, from the counts of pairs."""
    count = np.ravel(pairs.sum(axis=0)) + 1
    found: np.ndarray = count / count.sum()
    return found


def bigrams(pairs: Any, weight: float) -> Callable[..., np.ndarray]:
    """Return a function for the log-probabilities of bigrams with back-off to unigrams.

    Args:
        pairs: counts of pairs of successive tokens, a SciPy matrix ``[V, V]``.
        weight: weight β of the unigram probability.

    Returns:
        Function of tokens ``before [A]`` and ``after [B]``. It returns the log-probability of each
        token of ``after`` following each of ``before``, ``[A, B]``; without ``after``, those of all
        tokens, ``[A, V]``.
    """
    single, total = probability(pairs), np.ravel(pairs.sum(axis=1))

    def logs(before: np.ndarray, after: np.ndarray | slice = slice(None)) -> np.ndarray:
        found = pairs[before][:, after].toarray() + weight * single[after]
        result: np.ndarray = np.log(found / (total[before, None] + weight))
        return result

    return logs
