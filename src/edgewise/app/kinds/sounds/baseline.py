"""Baseline of recordings: logistic regression on mean and deviation of the spectrogram."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from edgewise.app.train.baseline import Candidate, batches_of, fit_classifier
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits

STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""Settings: inverse penalty C of logistic regression on standardised features."""


def candidates(_recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield logistic regression on the mean, and on mean and deviation, with each penalty."""
    count = splits.model_arguments["out_width"]
    for deviation in (False, True):
        name = "mean and deviation" if deviation else "mean"
        features = partial(over_time, deviation=deviation)
        read = cache(partial(_read, splits, features))
        for strength in STRENGTHS:
            model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=500))
            fit = partial(fit_classifier, model, read, features, count)
            yield Candidate(f"logistic regression on {name} over time", f"C = {strength:g}", fit)


def _read(splits: Splits, features: Callable[[Batch], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    batches = list(batches_of(splits.train))
    target = torch.cat([batch.target for batch in batches]).numpy()
    return np.concatenate([features(batch) for batch in batches]), target


def over_time(batch: Batch, *, deviation: bool) -> np.ndarray:
    """Return the mean of the tokens of each recording, and their standard deviation if asked."""
    x, members = batch.inputs[0].numpy(), batch.keywords["batch"]
    bounds = zip(members.start.tolist(), members.stop.tolist(), strict=True)
    rows = [x[start:stop] for start, stop in bounds]
    mean = np.stack([row.mean(0) for row in rows])
    return np.hstack([mean, np.stack([row.std(0) for row in rows])]) if deviation else mean
