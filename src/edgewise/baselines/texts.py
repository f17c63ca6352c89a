"""Baseline of text classification: linear models on TF-IDF of words and pairs of words.

If a text has several labels, each has a logistic regression (one-vs-rest). Target columns of
numbers have a ridge regression.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import torch

from edgewise.baselines.candidate import Candidate, Score, batches_of
from edgewise.baselines.columns import columns_of, fit_columns, linear_model, linear_name
from edgewise.data import TextSplits
from edgewise.errors import require
from edgewise.layers import Tokens
from edgewise.recipes.recipe import Recipe
from edgewise.runs.preprocessing import Preprocessing

STRENGTHS = (1.0, 10.0, 100.0)
"""Settings: inverse penalty C of logistic regression."""
LENGTHS = {1: "words", 2: "pairs of words"}
"""Settings: maximum number of successive words in a feature of TF-IDF, and the setting's name."""
QUICK = 20_000
"""Maximum number of training texts with which ``edgewise train`` evaluates baselines."""


def is_large(run: Preprocessing) -> bool:
    """Return whether the baselines for these data take more than about a minute."""
    return run.train_examples > QUICK


def candidates(recipe: Recipe, splits: TextSplits) -> Iterator[Candidate]:
    """Yield the baseline with each setting."""
    require("sklearn", extra="train", purpose="logistic regression on TF-IDF")
    for (length, name), strength in product(LENGTHS.items(), STRENGTHS):
        setting = f"{name}, C = {strength:g}"
        fit = partial(_fitted, recipe, splits, length, strength)
        yield Candidate(f"TF-IDF with {linear_name(columns_of(splits, recipe))}", setting, fit)


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
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, length), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")


def _fitted(recipe: Recipe, splits: TextSplits, length: int, strength: float) -> Score:
    texts: list[str] = []
    targets = []
    for batch in batches_of(splits.train):
        texts += texts_of(batch.inputs[0], splits)
        targets.append(batch.target.reshape(len(batch.target), -1))
    words = tf_idf(length)
    x, target = words.fit_transform(texts), torch.cat(targets).numpy()
    outputs = fit_columns(
        partial(linear_model, 1 / strength), columns_of(splits, recipe), x, target
    )
    return lambda batch: outputs(words.transform(texts_of(batch.inputs[0], splits)))
