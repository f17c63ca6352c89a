"""Baseline of nodes on disk: a linear model of a node's features and its neighbours' mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from edgewise.app.train.baseline import Candidate, Score, batches_of, fit_classifier
from edgewise.app.train.batches import Batch
from edgewise.app.train.column_baselines import Column, columns_of, fit_columns, linear_model
from edgewise.app.train.layerwise import LayerwiseBatch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.attention.attend import aggregate

FITTED = 50_000
"""Maximum number of training nodes, evenly spaced."""
STRENGTHS = (0.01, 0.1, 1.0)
PENALTIES = (1.0, 10.0, 100.0)

Read = Callable[[Batch], NDArray[np.float32]]


def candidates(recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield logistic or ridge regression on a node's features, alone and with the mean of its
    neighbours.
    """
    columns = columns_of(splits, recipe)
    for name, features in (("features", _own), ("features and their neighbours' mean", _with_mean)):
        read = cache(partial(_examples, splits, features))
        if splits.targets:
            for penalty in PENALTIES:
                fit = partial(_fit_numbers, columns, read, features, penalty)
                yield Candidate(f"ridge regression on {name}", f"penalty {penalty:g}", fit)
            continue
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=1000)
            count = splits.model_arguments["out_width"]
            fit = partial(fit_classifier, model, read, features, count)
            yield Candidate(f"logistic regression on {name}", f"C = {strength:g}", fit)


def _fit_numbers(
    columns: Sequence[Column],
    read: Callable[[], tuple[NDArray[np.float32], NDArray[Any]]],
    features: Read,
    penalty: float,
) -> Score:
    outputs = fit_columns(partial(linear_model, penalty), columns, *read())
    return lambda batch: outputs(features(batch))


def _examples(splits: Splits, features: Read) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return features and targets of training nodes."""
    batches = list(batches_of(splits.train, max(1, splits.train.count // FITTED)))
    targets = torch.cat([batch.target for batch in batches])
    return np.concatenate([features(batch) for batch in batches]), targets.numpy()


def _own(batch: Batch) -> NDArray[np.float32]:
    batch = batch.neighbourhood() if isinstance(batch, LayerwiseBatch) else batch
    return batch.select_outputs(batch.inputs[0]).numpy()


def _with_mean(batch: Batch) -> NDArray[np.float32]:
    batch = batch.neighbourhood() if isinstance(batch, LayerwiseBatch) else batch
    mean = batch.select_outputs(aggregate(*batch.inputs, reduce="mean"))
    return np.concatenate([_own(batch), mean.numpy()], axis=1)
