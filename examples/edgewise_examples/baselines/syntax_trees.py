"""Baseline for labels of words in syntax trees: logistic regression on a word and its head.

The features are those of the word, those of its head (0 for the root), and whether the head is to
the left or to the right of the word. In a chain, the next word takes the place of the head.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from edgewise.app.train import Batch, Candidate, Recipe, Splits
from edgewise.app.train.baseline import batches_of, fit_classifier

STRENGTHS = (0.03, 0.1, 0.3, 1.0)  # Settings: C, the inverse of the penalty on the weights.


def candidates(_recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield logistic regression with each strength of the penalty."""
    read, count = cache(partial(_training, splits)), splits.model_arguments["out_width"]
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=300)
        fit = partial(fit_classifier, model, read, described, count)
        yield Candidate("logistic regression on word and head", f"C = {strength:g}", fit, slow=True)


def described(batch: Batch) -> Any:
    """Return the features ``[M, 2 · hashed + 2]`` of the words with targets, a SciPy matrix."""
    assert batch.select is not None
    x, graph = batch.inputs
    word, head = graph.edge_index.numpy()  # A head attends to its dependents.
    ones, count = np.ones(len(word), np.float32), len(x)
    to_head = sparse.csr_matrix((ones, (word, head)), (count, count))
    side = sparse.csr_matrix((ones, (word, head > word)), (count, 2))
    words = sparse.csr_matrix(x.numpy())
    return sparse.hstack([words, to_head @ words, side]).tocsr()[batch.select.numpy()]


def _training(splits: Splits) -> tuple[Any, np.ndarray]:
    batches = list(batches_of(splits.train))
    target = torch.cat([batch.target for batch in batches]).numpy()
    return sparse.vstack([described(batch) for batch in batches]), target
