"""Candidate for a baseline: a method with one setting of its hyperparameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.app.train.batches import Batch, WritingBatch
from edgewise.app.train.preprocessing import Preprocessing
from edgewise.app.train.splits import Split

Score = Callable[[Batch], Tensor]
"""Function that, like a model, returns an output ``[M, ...]`` for each target of a batch."""
EXAMPLES = 4096  # Examples per batch, to limit memory.
SMALLEST = 1e-6  # Lower bound of probabilities, so that logarithms are finite.
IMPOSSIBLE = -1e9  # Score of a class that does not occur in the training labels.
QUICK_TREES = 3000
"""Maximum number of training graphs with which ``edgewise train`` fits trees. 1,513 molecules take
11 s, and 45 s with reading and descriptors."""


class NoBaselineError(ArgumentError):
    """Error: there are no baselines for the data and task of a recipe.

    Example:
        >>> from edgewise.app import kinds, runs
        >>> from edgewise.app.train import NoBaselineError
        >>> try:
        ...     baselines = runs.measure(kinds.find("digits"))  # doctest: +SKIP
        ... except NoBaselineError as error:
        ...     print(error)
    """


@dataclass(frozen=True)
class Writer:
    """Fitted method that writes a text for each example of a batch.

    Example:
        >>> from edgewise.app.train import Writer
        >>> copied = Writer(lambda batch: batch.sources)  # doctest: +SKIP
    """

    write: Callable[[WritingBatch], list[str]]


class Candidate(NamedTuple):
    """Method with one setting. The validation set chooses among the settings of a method.

    Attributes:
        name: name of the method.
        setting: hyperparameters as text; empty if there are none.
        fit: function that fits the method to the training data. It returns a function from a batch
            to the method's outputs, or a :class:`Writer`.
        slow: whether fitting takes more than about ten seconds; ``edgewise train`` then leaves this
            candidate out. (If ``Baselines.is_large`` returns True, it leaves out all candidates.)

    Example:
        >>> import torch
        >>> from edgewise.app.train import Candidate
        >>> def zeros(batch):
        ...     return torch.zeros_like(batch.target)
        >>> Candidate("zero", "", lambda: zeros).name
        'zero'
    """

    name: str
    setting: str
    fit: Callable[[], Score | Writer]
    slow: bool = False


def is_large_for_trees(run: Preprocessing) -> bool:
    """Return whether trees on these graphs take more than about a minute."""
    return run.train_examples > QUICK_TREES


def batches_of(split: Split, step: int = 1) -> Iterator[Batch]:
    """Yield batches that contain each example of a split once, or every ``step``-th, in order."""
    for index in torch.arange(0, split.count, step).split(EXAMPLES):
        yield split.make(index)


def class_scores(log_probabilities: np.ndarray, classes: np.ndarray, count: int) -> Tensor:
    """Return scores ``[M, count]`` of all classes; unknown classes get a very low score."""
    scores = torch.full((len(log_probabilities), count), IMPOSSIBLE)
    scores[:, torch.from_numpy(classes).long()] = torch.from_numpy(log_probabilities).float()
    return scores


def fit_classifier(
    model: Any, read: Callable[[], tuple[Any, Any]], features: Callable[[Batch], Any], count: int
) -> Score:
    """Fit a scikit-learn classifier, and return a function that scores all classes."""
    model.fit(*read())
    return lambda batch: bounded_scores(model, features(batch), count)


def bounded_scores(model: Any, x: np.ndarray, count: int) -> Tensor:
    """Return log-probabilities ``[M, count]`` of a scikit-learn classifier, bounded below."""
    logs = np.log(np.maximum(model.predict_proba(x), SMALLEST))
    return class_scores(logs, model.classes_, count)
