r"""Baselines of masked language modelling: unigrams, and naive Bayes on the neighbouring tokens.

The score of token w at a masked position is

.. math:: \log p(w) + \sum_{d=-2}^{2} λ_d
    \log\left(1 + \frac{c_d(x_d, w)}{β\, p(w)}\right)

where :math:`x_d` is the token at distance d from the position, p(w) the unigram probability,
:math:`c_d` the number of pairs in the training text, and β a smoothing constant. The weight λ is 1,
and 0.5 at distance 2, because the farther neighbours are not independent of the nearer ones. At
distance 0 is the token that is shown in place of the masked one: usually the mask token, but it can
be the token itself, or a random one. A neighbour that is masked has no pairs, so it adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.baselines.candidate import Candidate, Score, batches_of
from edgewise.baselines.language import probability
from edgewise.batches import Batch
from edgewise.data import Splits
from edgewise.errors import require
from edgewise.recipes.recipe import Recipe

WEIGHTS = {-2: 0.5, -1: 1.0, 0: 1.0, 1: 1.0, 2: 0.5}
"""Weight λ at each distance d."""
FAR = max(WEIGHTS)
SMOOTHING = (10.0, 30.0, 100.0)  # Settings: β.

Pairs = dict[int, Any]
"""Counts of pairs at each distance: a SciPy matrix ``[V + 1, V]``, with a row for each neighbour.

The last row is empty; it stands for a neighbour outside the window.
"""


def candidates(_recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield each baseline with each setting; all use the same counts of the training text."""
    require("scipy", extra="graphs", purpose="counts of pairs of tokens")
    pairs = cache(partial(_pairs, splits))
    yield Candidate("unigrams", "", lambda: _unigrams(pairs()))
    for smoothing in SMOOTHING:
        fit = partial(_naive_bayes, pairs, smoothing)
        yield Candidate("naive Bayes on neighbours", f"β = {smoothing:g}", fit)


def _pairs(splits: Splits) -> Pairs:
    from scipy import sparse

    size, context = (splits.model_arguments[name] for name in ("vocab_size", "longest_text"))
    total = {at: sparse.csr_matrix((size + 1, size)) for at in WEIGHTS}
    # Windows may begin at any token; with this step they do not overlap.
    for batch in batches_of(splits.train, step=context - 1):
        tokens, places = batch.inputs
        text = tokens.ids.flatten().index_copy(0, places, batch.target).view_as(tokens.ids)
        padded = torch.nn.functional.pad(text, (FAR, FAR), value=size)
        for at in WEIGHTS:
            near, word = padded[:, FAR + at :][:, : text.shape[1]].flatten(), text.flatten()
            if at == 0:
                near, word = tokens.ids.flatten()[places], batch.target
            found = (np.ones(len(word)), (near.numpy(), word.numpy()))
            total[at] += sparse.coo_matrix(found, (size + 1, size)).tocsr()
    return total


def _single(pairs: Pairs) -> np.ndarray:
    return probability(np.ravel(pairs[1].sum(axis=0)))


def _unigrams(pairs: Pairs) -> Score:
    logs = torch.from_numpy(np.log(_single(pairs))).float()
    return lambda batch: logs.expand(len(batch.target), -1)


def _naive_bayes(pairs: Callable[[], Pairs], smoothing: float) -> Score:
    single, terms = _single(pairs()), {}
    for at, weight in WEIGHTS.items():
        term = pairs()[at].copy()
        term.data = weight * np.log1p(term.data / (smoothing * single[term.indices]))
        terms[at] = term.astype(np.float32)

    def score(batch: Batch) -> Tensor:
        tokens, places = batch.inputs
        width = tokens.ids.shape[1]
        row, column = places // width, places % width + FAR
        padded = torch.nn.functional.pad(tokens.ids, (FAR, FAR), value=len(single))
        found = sum(terms[at][padded[row, column + at].numpy()] for at in WEIGHTS)
        return torch.from_numpy(found.toarray() + np.log(single).astype(np.float32))

    return score
