"""Baselines of image classification: logistic regression and nearest neighbours on pixels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.baselines.candidate import Candidate, Score, batches_of, bounded_scores
from edgewise.batches import Batch
from edgewise.data import Splits
from edgewise.errors import require
from edgewise.recipes.recipe import Recipe

STRENGTHS = (0.01, 0.1, 1.0)
"""Inverse penalties C of logistic regression on standardised pixels."""
NEIGHBOURS = (1, 5)
QUICK = 1_000_000
"""Maximum number of training pixels at the end of ``edgewise train``."""


def candidates(_recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield the baselines."""
    require("sklearn", extra="train", purpose="logistic regression and nearest neighbours")
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    read = cache(partial(_read, splits))
    slow = splits.train.count * splits.val.make(torch.zeros(1).long()).inputs[0].numel() > QUICK
    for count in NEIGHBOURS:
        model = KNeighborsClassifier(count)
        yield Candidate(
            "k-NN on pixels", f"k = {count}", partial(_fitted, read, model, splits), slow
        )
    for strength in STRENGTHS:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=500))
        fit = partial(_fitted, read, model, splits)
        yield Candidate("logistic regression on pixels", f"C = {strength:g}", fit, slow)


def _read(splits: Splits) -> tuple[np.ndarray, np.ndarray]:
    parts = list(batches_of(splits.train))
    x = torch.cat([batch.inputs[0].flatten(1) for batch in parts])
    return x.numpy(), torch.cat([batch.target for batch in parts]).numpy()


def _fitted(read: Any, model: Any, splits: Splits) -> Score:
    model.fit(*read())

    def score(batch: Batch) -> Tensor:
        x = batch.inputs[0].flatten(1).numpy()
        return bounded_scores(model, x, splits.model_arguments["out_width"])

    return score
