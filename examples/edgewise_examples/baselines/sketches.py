"""Baseline for sketches without a graph: randomised trees on histograms of strokes.

A sketch has 577 features: the amount of ink in each cell of a grid, separately for four directions
of strokes, and the number of strokes. The trees are fitted on each training sketch itself and on
:data:`VARIED` copies, which are changed by the random affine maps of the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from edgewise.baselines import Candidate, Score
from edgewise.baselines.candidate import batches_of, bounded_scores
from edgewise.batches import Batch
from edgewise.data import Split, Splits
from edgewise.errors import require
from edgewise.ragged import starts
from edgewise.recipes import Recipe
from edgewise_examples.data.quickdraw import INK, strokes_of

VARIED, TREES, FEATURES = 4, 200, ("sqrt", 60)

Training = Callable[[], tuple[np.ndarray, np.ndarray]]


def candidates(recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield one candidate for each setting of the number of features tried per split of a tree."""
    require("sklearn", extra="train", purpose="randomised trees")
    known = cache(partial(_training, recipe, splits))
    for features in FEATURES:
        fit = partial(_fitted, known, features, splits.model_arguments["out_width"])
        yield Candidate("randomised trees on strokes", f"{features} features", fit, slow=True)


def described(batch: Batch) -> Tensor:
    """Return the features ``[B, INK + 1]`` of the drawings in a batch."""
    x, graph = batch.inputs
    sizes = graph.segments[0]
    if x.shape[1] <= INK:  # The nodes are points, not strokes.
        x, sizes = strokes_of(x, sizes)
    return torch.cat([x[starts(sizes), :INK], sizes[:, None] - 1], dim=1)


def _read(split: Split) -> tuple[np.ndarray, np.ndarray]:
    batches = list(batches_of(split))
    x = torch.cat([described(batch) for batch in batches])
    return x.numpy(), torch.cat([batch.target for batch in batches]).numpy()


def _training(recipe: Recipe, splits: Splits) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels of the training sketches and of their changed copies."""
    varied = recipe.data.load().train
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        parts = [_read(splits.train), *(_read(varied) for _ in range(VARIED))]
    x, y = (np.concatenate(of) for of in zip(*parts, strict=True))
    return x, y


def _fitted(
    known: Callable[[], tuple[np.ndarray, np.ndarray]], features: str | int, classes: int
) -> Score:
    from sklearn.ensemble import ExtraTreesClassifier

    model = ExtraTreesClassifier(TREES, max_features=features, random_state=0).fit(*known())

    def score(batch: Batch) -> Tensor:
        return bounded_scores(model, described(batch).numpy(), classes)

    return score
