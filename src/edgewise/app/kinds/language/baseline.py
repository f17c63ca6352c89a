r"""Baselines of language modelling: unigrams, and bigrams with back-off to unigrams.

The probabilities of token b, and of b after token a, are

.. math:: p(b) = \frac{c(b) + 1}{\sum_b c(b) + V}, \qquad
    p(b \mid a) = \frac{c(a, b) + β\, p(b)}{c(a) + β}

with the counts c in the training text, the vocabulary size V and the back-off weight β.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from edgewise.app.train.baseline import Candidate, Score, batches_of
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.app.train.text.baselines import bigrams, probability

WEIGHTS = (1.0, 10.0, 100.0)
"""Settings: weight β of the unigram probability in the bigram model."""


def candidates(_recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield each baseline with each setting; all use the same counts of the training text."""
    pairs = counts(splits)
    yield Candidate("unigrams", "", lambda: unigrams(pairs))
    for weight in WEIGHTS:
        fit = partial(_bigrams, pairs, weight)
        yield Candidate("bigrams with back-off", f"β = {weight:g}", fit)


def counts(splits: Splits) -> Any:
    """Return the counts of pairs of successive tokens, a SciPy matrix ``[V, V]``."""
    size, context = (splits.model_arguments[name] for name in ("vocab_size", "longest_text"))
    total = sparse.csr_matrix((size, size), dtype=np.float64)
    # Windows may begin at any token; with this step they do not overlap.
    for batch in batches_of(splits.train, step=context):
        first, second = batch.inputs[0].ids.flatten().numpy(), batch.target.numpy()
        total += sparse.coo_matrix((np.ones(len(second)), (first, second)), (size, size)).tocsr()
    return total


def unigrams(pairs: Any) -> Score:
    """Return a function that scores each token by its log-probability, from the counts of pairs."""
    logs = torch.from_numpy(np.log(probability(pairs))).float()
    return lambda batch: logs.expand(len(batch.target), -1)


def _bigrams(pairs: Any, weight: float) -> Score:
    logs = bigrams(pairs, weight)

    def score(batch: Batch) -> Tensor:
        first = batch.select_outputs(batch.inputs[0].ids.flatten()).numpy().copy()
        return torch.from_numpy(logs(first)).float()

    return score
