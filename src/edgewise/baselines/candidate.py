"""Candidate of a baseline: one method with one setting of its hyper-parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgewise.batches import Batch
from edgewise.data import Split
from edgewise.errors import ArgumentError

Score = Callable[[Batch], Tensor]
"""Function that returns the outputs ``[M, ...]`` for the targets of a batch, like a model."""
EXAMPLES = 4096  # Examples per batch, to limit memory.
SMALLEST = 1e-6  # Lower bound of probabilities, so that logarithms are finite.
IMPOSSIBLE = -1e9  # Score of a class that does not occur in the training labels.


class NoBaselineError(ArgumentError):
    """Error: the data and task of a recipe have no baselines."""


class Candidate(NamedTuple):
    """Method with one setting; settings of a method are compared on the validation set.

    Attributes:
        name: name of the method.
        setting: hyper-parameters in words; empty if there are none.
        fit: function that fits the method to the training data and returns its scores.
        slow: whether fitting takes more than about ten seconds, so that ``edgewise train`` leaves
            it out. ``Kind.is_large`` leaves out all candidates by the size of the data.
    """

    name: str
    setting: str
    fit: Callable[[], Score]
    slow: bool = False


def batches_of(split: Split) -> Iterator[Batch]:
    """Yield batches that contain each example of a split once, in order."""
    for index in torch.arange(split.count).split(EXAMPLES):
        yield split.make(index)


def class_scores(log_probabilities: np.ndarray, classes: np.ndarray, count: int) -> Tensor:
    """Return scores ``[M, count]`` of all classes from scores ``[M, K]`` of some classes.

    Args:
        log_probabilities: scores of the classes that occur in training.
        classes: indices of these classes, ``[K]``.
        count: number of classes.
    """
    scores = torch.full((len(log_probabilities), count), IMPOSSIBLE)
    scores[:, torch.from_numpy(classes).long()] = torch.from_numpy(log_probabilities).float()
    return scores


def bounded_scores(model: Any, x: np.ndarray, count: int) -> Tensor:
    """Return scores ``[M, count]`` of a classifier of scikit-learn whose probabilities can be 0."""
    logs = np.log(np.maximum(model.predict_proba(x), SMALLEST))
    return class_scores(logs, model.classes_, count)
