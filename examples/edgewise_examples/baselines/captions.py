"""Baseline for captions of rows of digits: classify each square that is not empty.

The row is cut into its squares. The digit of a square is moved so that its centre of mass is in the
middle, and classified by its pixels. The caption names the classes from left to right. This method
knows how rows are made, which the trained model has to learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain, compress
from typing import Any

import numpy as np
from scipy import ndimage
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from edgewise.app.train import Candidate, Recipe, Splits, Writer, WritingBatch

NEIGHBOURS = (1, 3, 5)
TREES, FEATURES = 200, ("sqrt", 60)

Training = Callable[[], tuple[np.ndarray, list[str]]]


def candidates(recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield nearest neighbours and randomised trees with each setting."""
    read = cache(partial(_training, recipe, splits))
    for count in NEIGHBOURS:
        fit = partial(_fitted, read, KNeighborsClassifier(count))
        yield Candidate("k-NN on squares", f"k = {count}", fit, slow=True)
    for features in FEATURES:
        trees = ExtraTreesClassifier(TREES, max_features=features, random_state=0)
        fit = partial(_fitted, read, trees)
        yield Candidate("randomised trees on squares", f"{features} features", fit, slow=True)


def digits_of(images: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels ``[N, H · H]`` of all squares with a digit, and their number per image.

    Args:
        images: rows of squares, ``[B, 1, H, P · H]``.
    """
    side = images.shape[2]
    squares = images[:, 0].unfold(2, side, side).transpose(1, 2).numpy()  # [B, P, H, H]
    there = squares.any(axis=(2, 3))
    middle = (side - 1) / 2
    digits = []
    for square in squares[there]:
        down, right = ndimage.center_of_mass(square)
        digits.append(np.roll(square, (round(middle - down), round(middle - right)), (0, 1)))
    return np.stack(digits).reshape(len(digits), -1), there.sum(axis=1)


def _training(recipe: Recipe, splits: Splits) -> tuple[np.ndarray, list[str]]:
    """Return the pixels and the names of the digits of one epoch of training images."""
    pixels: list[np.ndarray] = []
    names: list[str] = []
    for batch in splits.loaders(recipe.seed)["train"]:
        assert isinstance(batch, WritingBatch)
        digits, counts = digits_of(batch.inputs[0])
        words = [text.split() for text in batch.references]
        # With a large jitter, a digit can be shifted out of its square. Leave out these images.
        is_complete_row = counts == list(map(len, words))
        pixels.append(digits[is_complete_row.repeat(counts)])
        names += chain.from_iterable(compress(words, is_complete_row))
    return np.concatenate(pixels), names


def _fitted(read: Training, model: Any) -> Writer:
    model.fit(*read())

    def write(batch: WritingBatch) -> list[str]:
        pixels, counts = digits_of(batch.inputs[0])
        names_by_image = np.split(model.predict(pixels), np.cumsum(counts)[:-1])
        return [" ".join(names) for names in names_by_image]

    return Writer(write)
