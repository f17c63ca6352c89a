"""Evaluation of a split whose batches share what is computed once from the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from torch import nn

from edgewise.app.train.batches import Batch
from edgewise.app.train.splits import Loader, Split

T = TypeVar("T")


class Evaluation(Generic[T]):
    """One evaluation of a split, whose batches share a value computed from the model."""

    def __init__(self, value_of: Callable[[nn.Module], T]) -> None:
        self._value_of = value_of
        self._cached: tuple[nn.Module, T] | None = None

    def __call__(self, model: nn.Module) -> T:
        """Return the value for a model, whose weights do not change during the evaluation."""
        if self._cached is None or self._cached[0] is not model:
            self._cached = model, self._value_of(model)
        return self._cached[1]


@dataclass(frozen=True, kw_only=True)
class EvaluationBatch(Batch):
    """Batch whose ``evaluation`` is shared by all batches of one iteration of the loader."""

    evaluation: Evaluation[Any]


class EvaluationLoader(Loader):
    """Loader of :class:`EvaluationBatch`; each iteration is one evaluation."""

    def __iter__(self) -> Iterator[Batch]:
        evaluation: Evaluation[Any] | None = None
        for batch in super().__iter__():
            assert isinstance(batch, EvaluationBatch)
            evaluation = evaluation or batch.evaluation
            yield replace(batch, evaluation=evaluation)


@dataclass(frozen=True)
class EvaluationSplit(Split):
    """Validation or test split of :class:`EvaluationBatch`."""

    def loader(self, batch_size: int, seed: int | None) -> Loader:
        return EvaluationLoader(self.make, self.count, batch_size, seed)
