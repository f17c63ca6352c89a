"""Baseline of text classification: logistic regression on TF-IDF of words and pairs of words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch
from torch import Tensor

from edgewise.baselines.candidate import Candidate, Score, batches_of, class_scores
from edgewise.batches import Batch
from edgewise.data import TextSplits
from edgewise.errors import require
from edgewise.layers import Tokens
from edgewise.recipes.recipe import Recipe
from edgewise.runs.preprocessing import Preprocessing

STRENGTHS = (1.0, 10.0, 100.0)
"""Inverse penalties C of logistic regression."""
LENGTHS = (1, 2)
"""Maximum number of words of a feature."""
QUICK = 20_000
"""Maximum number of training texts at the end of ``edgewise train``."""


def is_large(run: Preprocessing) -> bool:
    """Return whether the baselines take more than about ten seconds."""
    return run.train_examples > QUICK


def candidates(_recipe: Recipe, splits: TextSplits) -> Iterator[Candidate]:
    """Yield the baseline for each setting."""
    require("sklearn", extra="train", purpose="logistic regression on TF-IDF")
    for length, strength in product(LENGTHS, STRENGTHS):
        setting = f"{'pairs of words' if length > 1 else 'words'}, C = {strength:g}"
        fit = partial(_fitted, splits, length, strength)
        yield Candidate("TF-IDF with logistic regression", setting, fit)


def texts_of(tokens: Tokens, splits: TextSplits) -> list[str]:
    """Decode the texts of a batch, without special tokens."""
    return list(splits.tokenizer.decode_batch(ids_of(tokens)))


def ids_of(tokens: Tokens) -> list[list[int]]:
    """Return the token ids of each text, without padding."""
    if tokens.sizes is not None:
        return [part.tolist() for part in tokens.ids.split(tokens.sizes.tolist())]
    if tokens.mask is None:
        rows: list[list[int]] = tokens.ids.tolist()
        return rows
    return [row[kept > 0].tolist() for row, kept in zip(tokens.ids, tokens.mask, strict=True)]


def _fitted(splits: TextSplits, length: int, strength: float) -> Score:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts: list[str] = []
    labels = []
    for batch in batches_of(splits.train):
        texts += texts_of(batch.inputs[0], splits)
        labels.append(batch.target)
    words = TfidfVectorizer(
        ngram_range=(1, length), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]", lowercase=True
    )
    model = make_pipeline(words, LogisticRegression(C=strength, max_iter=1000))
    model.fit(texts, torch.cat(labels).numpy())

    def score(batch: Batch) -> Tensor:
        logs = model.predict_log_proba(texts_of(batch.inputs[0], splits))
        return class_scores(logs, model.classes_, splits.model_arguments["out_width"])

    return score
