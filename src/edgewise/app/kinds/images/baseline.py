"""Baselines of image classification: logistic regression and nearest neighbours on pixels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from edgewise.app.train.baseline import Candidate, batches_of, fit_classifier
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits

STRENGTHS = (0.01, 0.1, 1.0)
"""Settings: inverse penalty C of logistic regression on standardised pixels."""
NEIGHBOURS = (1, 5)


def candidates(_recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield each baseline with each setting."""
    read, count = cache(partial(_read, splits)), splits.model_arguments["out_width"]
    for neighbours in NEIGHBOURS:
        fit = partial(fit_classifier, KNeighborsClassifier(neighbours), read, _pixels, count)
        yield Candidate("k-NN on pixels", f"k = {neighbours}", fit)
    for strength in STRENGTHS:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=500))
        fit = partial(fit_classifier, model, read, _pixels, count)
        yield Candidate("logistic regression on pixels", f"C = {strength:g}", fit)


def _pixels(batch: Batch) -> np.ndarray:
    return np.asarray(batch.inputs[0].flatten(1))


def _read(splits: Splits) -> tuple[np.ndarray, np.ndarray]:
    batches = list(batches_of(splits.train))
    target = torch.cat([batch.target for batch in batches]).numpy()
    return np.concatenate([_pixels(batch) for batch in batches]), target
