r"""Baselines of masked language modelling: unigrams, and naive Bayes on the neighbouring tokens.

The score of token w at a masked position is

.. math:: \log p(w) + \sum_{d=-2}^{2} λ_d
    \log\left(1 + \frac{c_d(x_d, w)}{β\, p(w)}\right)

where :math:`x_d` is the token at distance d from the position, p(w) the unigram probability,
:math:`c_d` the number of pairs in the training text, and β a smoothing constant. The weight λ is 1,
and 0.5 at distance 2, because the farther neighbours are not independent of the nearer ones. At
distance 0 is the token that is shown at the position: usually the mask token, but it can be the
token itself, or a random one. A neighbour that is masked has no pairs, so it adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from edgewise.app.kinds.language.baseline import unigrams
from edgewise.app.train.baseline import Candidate, Score, batches_of
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.app.train.text.baselines import probability

WEIGHTS = {-2: 0.5, -1: 1.0, 0: 1.0, 1: 1.0, 2: 0.5}
"""Weight λ at each distance d."""
MAX_DISTANCE = max(WEIGHTS)
SMOOTHING = (10.0, 30.0, 100.0)  # Settings: β.

Pairs = dict[int, Any]
"""Counts of pairs at each distance: a SciPy matrix ``[V + 1, V]``, with a row for each neighbour.

The last row stands for a neighbour outside the window.
"""


def candidates(recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield each baseline with each setting; all use the same counts of the training text."""
    pairs = cache(partial(_pairs, splits, recipe.seed))
    yield Candidate("unigrams", "", lambda: unigrams(pairs()[-1]))
    for smoothing in SMOOTHING:
        fit = partial(_naive_bayes, pairs, smoothing)
        yield Candidate("naive Bayes on neighbours", f"β = {smoothing:g}", fit)


@torch.random.fork_rng()
def _pairs(splits: Splits, seed: int) -> Pairs:
    """Count pairs in the training text; the seed of the masks determines those at distance 0."""
    torch.manual_seed(seed)
    size, context = (splits.model_arguments[name] for name in ("vocab_size", "longest_text"))
    total = {distance: sparse.csr_matrix((size + 1, size)) for distance in WEIGHTS}
    # Windows may begin at any token; with this step they do not overlap.
    for batch in batches_of(splits.train, step=context - 1):
        tokens, masked = batch.inputs
        text = tokens.ids.flatten().index_copy(0, masked, batch.target).view_as(tokens.ids)
        padded = _padded(text, size)
        words = text[:, 1:]  # The first token is <cls>.
        for distance in WEIGHTS:
            near = padded[:, MAX_DISTANCE + 1 + distance :][:, : words.shape[1]].flatten()
            row, column = near.numpy(), words.flatten().numpy()
            if distance == 0:
                row, column = tokens.ids.flatten()[masked].numpy(), batch.target.numpy()
            counts = sparse.coo_matrix((np.ones(len(row)), (row, column)), (size + 1, size))
            total[distance] += counts.tocsr()
    return total


def _padded(ids: Tensor, value: int) -> Tensor:
    """Return windows ``[B, T]`` with ``value`` for the neighbours outside, ``[B, T + 4]``."""
    return torch.nn.functional.pad(ids, (MAX_DISTANCE, MAX_DISTANCE), value=value)


def _naive_bayes(pairs: Callable[[], Pairs], smoothing: float) -> Score:
    single, terms = probability(pairs()[-1]), {}
    prior = np.log(single).astype(np.float32)
    for distance, weight in WEIGHTS.items():
        term = pairs()[distance].copy()
        term.data = weight * np.log1p(term.data / (smoothing * single[term.indices]))
        terms[distance] = term.astype(np.float32)

    def score(batch: Batch) -> Tensor:
        tokens, masked = batch.inputs
        width = tokens.ids.shape[1]
        row, column = masked // width, masked % width + MAX_DISTANCE
        padded = _padded(tokens.ids, len(single))
        logs = sum(terms[d][padded[row, column + d].numpy()] for d in WEIGHTS)
        return torch.from_numpy(logs.toarray() + prior)

    return score
