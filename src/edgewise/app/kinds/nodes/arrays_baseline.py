"""Baseline of classes of nodes on disk: logistic regression on a node and its neighbours' mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from edgewise.app.train.baseline import Candidate, batches_of, fit_classifier
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.attention.attend import aggregate

FITTED = 50_000
"""Maximum number of training nodes, evenly spaced."""
STRENGTHS = (0.01, 0.1, 1.0)


def candidates(recipe: Recipe, splits: Splits) -> Iterator[Candidate]:  # noqa: ARG001
    """Yield logistic regression on a node's features, alone and with the mean of its neighbours."""
    for name, features in (("features", _own), ("features and their neighbours' mean", _with_mean)):
        read = cache(partial(_examples, splits, features))
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=1000)
            count = splits.model_arguments["out_width"]
            fit = partial(fit_classifier, model, read, features, count)
            yield Candidate(f"logistic regression on {name}", f"C = {strength:g}", fit)


def _examples(
    splits: Splits, features: Callable[[Batch], NDArray[np.float32]]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return features and classes of training nodes."""
    batches = list(batches_of(splits.train, max(1, splits.train.count // FITTED)))
    classes = torch.cat([batch.target for batch in batches])
    return np.concatenate([features(batch) for batch in batches]), classes.numpy()


def _own(batch: Batch) -> NDArray[np.float32]:
    return batch.select_outputs(batch.inputs[0]).numpy()


def _with_mean(batch: Batch) -> NDArray[np.float32]:
    mean = batch.select_outputs(aggregate(*batch.inputs, reduce="mean"))
    return np.concatenate([_own(batch), mean.numpy()], axis=1)
