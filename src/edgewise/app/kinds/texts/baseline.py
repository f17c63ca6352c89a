"""Baselines of texts: linear models on TF-IDF of words and pairs, one for each label or number."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch

from edgewise.app.train.baseline import Candidate, Score, batches_of
from edgewise.app.train.column_baselines import columns_of, fit_columns, linear_model, linear_name
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import TextSplits
from edgewise.app.train.text.baselines import LENGTHS, texts_of, tf_idf

STRENGTHS = (1.0, 10.0, 100.0)
"""Settings: inverse penalty C of logistic regression."""


def candidates(recipe: Recipe, splits: TextSplits) -> Iterator[Candidate]:
    """Yield the baseline with each setting."""
    for (length, name), strength in product(LENGTHS.items(), STRENGTHS):
        setting = f"{name}, C = {strength:g}"
        fit = partial(_fitted, recipe, splits, length, strength)
        yield Candidate(f"TF-IDF with {linear_name(columns_of(splits, recipe))}", setting, fit)


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
