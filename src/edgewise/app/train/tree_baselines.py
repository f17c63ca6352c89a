"""Baselines of graphs and molecules: trees and linear models on counts of node neighbourhoods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from edgewise.app.train.baseline import Candidate, Score, batches_of
from edgewise.app.train.batches import Batch
from edgewise.app.train.column_baselines import columns_of, fit_columns, linear_model, linear_name
from edgewise.app.train.neighbourhood_counts import NeighbourhoodCounts
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits

LEAVES = (15, 63)
TREES, PATIENCE = 1000, 20
RATE = 0.1
FOREST = 100  # Randomised trees.
STRENGTHS = (1.0, 10.0, 100.0, 1000.0, 10_000.0)


def candidates(recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield a linear model and gradient-boosted trees with each setting, and randomised trees."""
    features = Features(splits, recipe)
    kinds = {bool(column.classes) for column in features.columns}
    name = linear_name(features.columns)
    for strength in STRENGTHS:
        fit = partial(_fitted, features, partial(_linear, strength))
        yield Candidate(name, f"penalty {strength:g}", fit)
    losses = ("squared_error", "absolute_error") if False in kinds else ("log_loss",)
    for loss, leaves in product(losses, LEAVES):
        fit = partial(_fitted, features, partial(boosted_trees, loss, leaves))
        yield Candidate("gradient-boosted trees", f"{loss}, {leaves} leaves", fit)
    yield Candidate("randomised trees", f"{FOREST} trees", partial(_fitted, features, _forest))


class Features:
    """Features of graphs for scikit-learn, and targets, of the training and validation set."""

    def __init__(self, splits: Splits, recipe: Recipe) -> None:
        self.columns = columns_of(splits, recipe)
        train, val = (list(batches_of(split)) for split in (splits.train, splits.val))
        self.counts = NeighbourhoodCounts.fit(train)
        (self.train, self.target), (self.val, self.val_target) = map(self._rows, (train, val))

    def __call__(self, batch: Batch) -> np.ndarray:
        """Return the features of the graphs in a batch, ``[B, F]``."""
        features: np.ndarray = self.counts(*batch.inputs, **batch.keywords).numpy()
        return features

    def _rows(self, batches: Sequence[Batch]) -> tuple[np.ndarray, np.ndarray]:
        target = torch.cat([batch.target.reshape(len(batch.target), -1) for batch in batches])
        return np.concatenate([self(batch) for batch in batches]), target.numpy()


def _linear(strength: float, classes: int) -> Any:
    clip = FunctionTransformer(np.clip, kw_args={"a_min": -10, "a_max": 10})
    return make_pipeline(StandardScaler(), clip, linear_model(strength, classes))


def boosted_trees(loss: str, leaves: int, classes: int) -> Any:
    """Return gradient-boosted trees with early stopping; ``loss`` is that of numbers."""
    kind: Any = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(
        loss="log_loss" if classes else loss,
        max_leaf_nodes=leaves,
        learning_rate=RATE,
        max_iter=TREES,
        early_stopping=True,
        n_iter_no_change=PATIENCE,
        random_state=0,
    )


def _forest(classes: int) -> Any:
    """Return extremely randomised trees (Geurts et al., 2006)."""
    # Numbers have far larger errors with a random part of the features at each split.
    kind: Any = ExtraTreesClassifier if classes else partial(ExtraTreesRegressor, max_features=1.0)
    return kind(FOREST, random_state=0)


def _fitted(features: Features, make: Callable[[int], Any]) -> Score:
    val = features.val, features.val_target
    outputs = fit_columns(make, features.columns, features.train, features.target, val)
    return lambda batch: outputs(features(batch))
