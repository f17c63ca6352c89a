"""Baseline for masked atoms and bonds: randomised trees on the features that are visible around
them, summed over bonds and neighbours. A masked bond has sum and absolute difference of its atoms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
import torch
from sklearn.ensemble import ExtraTreesClassifier
from torch import Tensor

from edgewise.app.kinds.molecules.masked_molecules import ATOM_KINDS, BOND_KINDS, HiddenParts
from edgewise.app.train.baseline import Candidate, Score, batches_of, bounded_scores
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits

TREES = 100
MIN_SAMPLES_LEAF = (1, 4)

Features = tuple[np.ndarray, np.ndarray]
"""Features of the masked atoms, and of the masked bonds."""


def candidates(_recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield randomised trees with each setting."""
    training_data = cache(partial(_training, splits))
    for least in MIN_SAMPLES_LEAF:
        fit = partial(_fitted, training_data, least)
        yield Candidate("randomised trees", f"min_samples_leaf = {least}", fit, slow=True)


def described(batch: Batch) -> Features:
    """Return the features of the masked atoms and bonds of a batch."""
    assert isinstance(batch, HiddenParts)
    assert batch.select is not None
    x, graph = batch.inputs
    source, target = graph.edge_index
    edges = batch.keywords["edge_attr"]
    edges = torch.cat([edges, edges.new_ones(len(edges), 1)], dim=1)

    def around(values: Tensor) -> Tensor:
        return values.new_zeros(len(x), values.shape[1]).index_add_(0, target, values)

    near = torch.cat([x, around(edges), around(x[source])], dim=1)
    atoms = torch.cat([near, around(near[source])], dim=1)[batch.select[batch.select < len(x)]]
    first, second = near[batch.bonds]
    bonds = torch.cat([first + second, (first - second).abs()], dim=1)
    return atoms.numpy(), bonds.numpy()


def _training(splits: Splits) -> tuple[Features, Features]:
    """Return the features and the classes of masked atoms, and those of masked bonds."""
    batches = list(batches_of(splits.train))
    atoms, bonds = (np.concatenate(of) for of in zip(*map(described, batches), strict=True))
    target = torch.cat([batch.target for batch in batches]).numpy()
    is_atom = target < ATOM_KINDS
    return (atoms, target[is_atom]), (bonds, target[~is_atom])


def _fitted(training_data: Callable[[], tuple[Features, Features]], least: int) -> Score:
    models = [
        ExtraTreesClassifier(TREES, min_samples_leaf=least, random_state=0).fit(x, y)
        for x, y in training_data()
    ]

    def score(batch: Batch) -> Tensor:
        features = zip(models, described(batch), strict=True)
        # A batch can have no masked bonds, because a molecule can be one atom.
        scores = [
            bounded_scores(model, x, ATOM_KINDS + BOND_KINDS) for model, x in features if len(x)
        ]
        return torch.cat(scores)

    return score
