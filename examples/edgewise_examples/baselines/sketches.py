"""Baseline of sketches without a graph: randomised trees on histograms of strokes.

The 578 features of a sketch are the amount of ink in each cell of a grid for each of four stroke
directions, and the numbers of strokes and points. The trees learn from each training sketch once
unchanged, and :data:`VARIED` times with the random maps of the recipe.
"""

from __future__ import annotations

import math
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
from edgewise.ragged import segment_index
from edgewise.recipes import Recipe
from edgewise_examples.data.quickdraw import PLACE

CELLS, DIRECTIONS = 12, 4
BETWEEN = 16  # sampled positions on each line between two points
VARIED, TREES, FEATURES = 4, 200, ("sqrt", 60)

Training = Callable[[], tuple[np.ndarray, np.ndarray]]


def candidates(recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield the baseline for each number of features per split of a tree."""
    require("sklearn", extra="train", purpose="randomised trees")
    known = cache(partial(_training, recipe, splits))
    for features in FEATURES:
        fit = partial(_fitted, known, features, splits.model_arguments["out_width"])
        yield Candidate("randomised trees on strokes", f"{features} features", fit, slow=True)


def described(batch: Batch) -> Tensor:
    """Return features ``[B, DIRECTIONS * CELLS * CELLS + 2]`` of the drawings of a batch."""
    x, graph = batch.inputs
    sizes = graph.segments[0]
    drawing = segment_index(sizes, len(x))
    place, begins, ends = x[:, :PLACE], x[:, PLACE], x[:, PLACE + 1].clone()
    ends[sizes.cumsum(0) - 1] = 1  # the last stroke of a truncated drawing ends, too
    step = place.diff(dim=0, append=place[-1:]) * (1 - ends[:, None])
    along = (torch.arange(BETWEEN) + 0.5) / BETWEEN
    place = place[:, None] + along[:, None] * step[:, None]
    place = ((place + 0.5) * CELLS - 0.5).clamp(0, CELLS - 1.001)
    turn = torch.atan2(step[:, 1], step[:, 0]) % math.pi / math.pi * DIRECTIONS
    ink = torch.zeros(len(sizes), DIRECTIONS, CELLS, CELLS)
    # Linear interpolation between neighbouring cells and directions.
    for across in (0, 1):
        for down in (0, 1):
            for after in (0, 1):
                cell, way = place.long(), turn.long()
                weight = (1 - (place - cell - torch.tensor([across, down])).abs()).prod(-1)
                weight = weight * (1 - (turn - way - after).abs())[:, None]
                weight = weight * step.norm(dim=1)[:, None] / BETWEEN
                index = (
                    drawing[:, None].expand_as(weight),
                    ((way + after) % DIRECTIONS)[:, None].expand_as(weight),
                    cell[..., 1] + down,
                    cell[..., 0] + across,
                )
                ink.index_put_(index, weight, accumulate=True)
    strokes = torch.zeros(len(sizes)).index_add(0, drawing, begins)
    return torch.cat([ink.sqrt().flatten(1), strokes[:, None], sizes[:, None]], dim=1)


def _read(split: Split) -> tuple[np.ndarray, np.ndarray]:
    batches = list(batches_of(split))
    x = torch.cat([described(batch) for batch in batches])
    return x.numpy(), torch.cat([batch.target for batch in batches]).numpy()


def _training(recipe: Recipe, splits: Splits) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels of the sketches, unchanged and varied."""
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
