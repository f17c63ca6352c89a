"""Baselines for sketches without a graph: randomised trees and a perceptron on strokes.

A sketch has 577 features: the square root of the amount of ink in each cell of a grid, separately
for four directions of strokes, and the number of strokes. Both methods are fitted on each training
sketch itself and on :data:`VARIED` copies, which are changed by the random affine maps of the
recipe. The perceptron has one hidden layer, and reads the square roots of these features.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

import numpy as np
import torch
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import Tensor

from edgewise._utils.ragged import starts
from edgewise.app.train import Batch, Candidate, Recipe, Split, Splits
from edgewise.app.train.baseline import batches_of, fit_classifier
from edgewise_examples.data.quickdraw import INK, strokes_of

VARIED, TREES, FEATURES = 4, 200, ("sqrt", 60)
HIDDEN, EPOCHS, PENALTIES = 1024, 15, (0.1, 0.3, 1.0)


def candidates(recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield trees with each number of features per split, and a perceptron with each penalty."""
    read, count = cache(partial(_training, recipe, splits)), splits.model_arguments["out_width"]
    for features in FEATURES:
        trees = ExtraTreesClassifier(TREES, max_features=features, random_state=0)
        fit = partial(fit_classifier, trees, read, _features, count)
        yield Candidate("randomised trees on strokes", f"{features} features", fit, slow=True)
    for penalty in PENALTIES:
        network = MLPClassifier(
            HIDDEN, alpha=penalty, batch_size=64, max_iter=EPOCHS, random_state=0
        )
        model = make_pipeline(FunctionTransformer(np.sqrt), StandardScaler(), network)
        fit = partial(fit_classifier, model, read, _features, count)
        yield Candidate("perceptron on strokes", f"penalty {penalty:g}", fit, slow=True)


def described(batch: Batch) -> Tensor:
    """Return the features ``[B, INK + 1]`` of the drawings in a batch."""
    x, graph = batch.inputs
    sizes = graph.segments[0]
    if x.shape[1] <= INK:  # The nodes are points, not strokes.
        x, sizes = strokes_of(x, sizes)
    return torch.cat([x[starts(sizes), :INK], sizes[:, None] - 1], dim=1)


def _features(batch: Batch) -> np.ndarray:
    return np.asarray(described(batch))


def _read(split: Split) -> tuple[np.ndarray, np.ndarray]:
    batches = list(batches_of(split))
    target = torch.cat([batch.target for batch in batches]).numpy()
    return np.concatenate([_features(batch) for batch in batches]), target


def _training(recipe: Recipe, splits: Splits) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels of the training sketches and of their changed copies."""
    varied = recipe.data.load().train
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        copies = [_read(splits.train), *(_read(varied) for _ in range(VARIED))]
    x, y = (np.concatenate(of) for of in zip(*copies, strict=True))
    return x, y
