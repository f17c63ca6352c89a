r"""Baselines of recommendation: popularity, item-kNN, EASE and GF-CF.

R is the matrix ``[users, items]`` of interactions, 1 or 0. D_U and D_I are the degrees of users and
items, and :math:`\tilde R = D_U^{-1/2} R D_I^{-1/2}`. The scores are:

- popularity: the number of users of an item;
- item-kNN: :math:`R S`, with the cosine similarities S of each item's k nearest items;
- EASE: :math:`R B`, with the coefficients B of a ridge regression of each item on all other items
  (Steck, Embarrassingly shallow autoencoders for sparse data, 2019);
- GF-CF: :math:`R (\tilde R^\top \tilde R + α D_I^{-1/2} V V^\top D_I^{1/2})`, with the first right
  singular vectors V of :math:`\tilde R` (Shen et al., How powerful is graph convolution for
  recommendation?, 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from edgewise.app.train.baseline import Candidate, Score
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.graphs import Graph

NEAREST = (50, 200)
PENALTIES = (50.0, 200.0, 500.0)
WEIGHTS = (0.0, 0.3)
VECTORS = 256
LARGEST = 12_000
"""Maximum number of items for EASE, which inverts a dense matrix ``[items, items]``."""
QUICK = 2_000
"""Maximum number of users, and of items, with which ``edgewise train`` evaluates baselines."""
ROWS = 2048  # Rows per product of sparse matrices, to limit memory.

Predict = Callable[[Any], Any]
"""Function from the interactions of B users ``[B, items]`` to scores ``[B, items]``."""


def candidates(_recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield each baseline with each setting, to be fitted to the training interactions."""
    users, items = splits.model_arguments["num_users"], splits.model_arguments["num_items"]
    graph = splits.val.make(torch.zeros(1, dtype=torch.long)).inputs[2]
    r = interactions(graph, users, items)
    yield Candidate("popularity", "", lambda: _scored(r, popularity(r)))
    vectors = cache(lambda: _singular_vectors(r, min(VECTORS, min(r.shape) - 1)))
    for weight in WEIGHTS:
        fit = partial(_fitted, r, partial(gfcf, r, weight, vectors))
        yield Candidate("GF-CF", f"α = {weight:g}", fit, slow=max(users, items) > QUICK)
    for count in NEAREST:
        fit = partial(_fitted, r, partial(item_knn, r, count))
        yield Candidate("item-kNN", f"{count} nearest", fit, slow=items > QUICK)
    for penalty in PENALTIES if items <= LARGEST else ():
        fit = partial(_fitted, r, partial(ease, r, penalty))
        yield Candidate("EASE", f"penalty {penalty:g}", fit, slow=items > QUICK)


def interactions(graph: Graph, users: int, items: int) -> Any:
    """Return the interactions of a graph, whose first nodes are the users, as a SciPy matrix."""
    source, target = graph.edge_index.numpy()
    chosen = target < users
    positions = target[chosen], source[chosen] - users
    return sparse.csr_matrix((np.ones(chosen.sum(), np.float32), positions), (users, items))


def popularity(r: Any) -> Predict:
    """Return a function that scores each item by its number of users."""
    count = np.ravel(r.sum(axis=0)).astype(np.float32)
    return lambda rows: np.broadcast_to(count, rows.shape).copy()


def gfcf(r: Any, weight: float, vectors: Callable[[], np.ndarray]) -> Predict:
    """Return a function that scores items by GF-CF with weight α; V is computed only if α > 0."""
    normalised, degree = _normalised(r)
    back = normalised.T.tocsr()
    v = vectors() if weight else None

    def predict(rows: Any) -> Any:
        linear = (rows @ back @ normalised).toarray()
        if v is None:
            return linear
        root = np.sqrt(np.maximum(degree, 1)).astype(np.float32)
        ideal = (rows.multiply(1 / root).tocsr() @ v) @ v.T
        return linear + weight * ideal * root

    return predict


def item_knn(r: Any, count: int) -> Predict:
    """Return a function that scores items by their cosine similarity to the user's items."""
    size = np.sqrt(np.maximum(np.ravel(r.sum(axis=0)), 1))
    unit = r.multiply(1 / size).tocsr().astype(np.float32)
    by_item, nearest = unit.T.tocsr(), []
    for begin in range(0, r.shape[1], ROWS):
        similar = (by_item[begin : begin + ROWS] @ unit).tocsr()
        similar.setdiag(0, k=begin)
        for i in range(similar.shape[0]):
            span = slice(similar.indptr[i], similar.indptr[i + 1])
            values = similar.data[span]
            if len(values) > count:
                values[np.argpartition(values, -count)[:-count]] = 0
        similar.eliminate_zeros()
        nearest.append(similar)
    # Column j holds the neighbours of item j.
    similarity = sparse.vstack(nearest).T.tocsr()
    return lambda rows: (rows @ similarity).toarray()


def ease(r: Any, penalty: float) -> Predict:
    """Return a function that scores items by EASE; the module docstring has the formula."""
    gram = (r.T @ r).toarray().astype(np.float64)
    gram[np.diag_indices_from(gram)] += penalty
    inverse = np.linalg.inv(gram)
    b = -inverse / np.diag(inverse)
    np.fill_diagonal(b, 0)
    b = b.astype(np.float32)
    return lambda rows: rows @ b


def _fitted(r: Any, fit: Callable[[], Predict]) -> Score:
    return _scored(r, fit())


def _scored(r: Any, predict: Predict) -> Score:
    def score(batch: Batch) -> Tensor:
        users, items, _graph = batch.inputs
        item_scores = np.asarray(predict(r[users.numpy()]), np.float32)
        return torch.from_numpy(item_scores)[:, items]

    return score


def _normalised(r: Any) -> tuple[Any, np.ndarray]:
    """Return the interactions normalised by user and item degrees, and the item degrees."""
    user, item = (np.maximum(np.ravel(r.sum(axis=axis)), 1) for axis in (1, 0))
    scaled = r.multiply(user[:, None] ** -0.5).multiply(item[None] ** -0.5)
    return scaled.tocsr().astype(np.float32), item


def _singular_vectors(r: Any, count: int) -> np.ndarray:
    """Return the first right singular vectors of the normalised matrix, ``[items, count]``."""
    _left, _values, right = randomized_svd(_normalised(r)[0], count, random_state=0)
    return np.ascontiguousarray(right.T, np.float32)
