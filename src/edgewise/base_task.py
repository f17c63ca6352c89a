"""The base of all tasks: what training asks of one, and what it may leave as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Task(ABC):
    """A loss and metrics, both of the outputs ``[M, ...]`` that count and their targets."""

    takes: ClassVar[tuple[str, ...]] = ()
    """What :meth:`complete` must be told of what the data decide; the model is told the rest."""

    def complete(self, model: nn.Module, data_sizes: Mapping[str, int]) -> nn.Module:  # noqa: ARG002
        """The model that is trained: the recipe's, and what this task puts on it.

        Args:
            model: made with what the data decide but for ``takes``.
            data_sizes: what the data say of ``takes``.
        """
        return model

    def check(self, model: nn.Module, batch: Any) -> None:  # noqa: B027 - most have nothing to say
        """Look at the model and the first batch, before anything is trained.

        Args:
            model: what :meth:`complete` gave.
            batch: of the data.

        Raises:
            ArgumentError: its loss would not mean what this task says of it.

        """

    @abstractmethod
    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """The mean loss to train on, a scalar."""

    def count(self, outputs: Tensor, target: Tensor) -> int:  # noqa: ARG002 - see recommendation
        """How many the loss is the mean of, by which batches and processes weigh it together."""
        return len(target)

    @abstractmethod
    def metrics(self) -> dict[str, Metric]:
        """New metrics by name, for one split.

        Raises:
            MissingExtraError: torchmetrics is not installed.

        """

    def generation_metrics(self) -> dict[str, Metric]:
        """New metrics by name of what the model writes, updated ``(written, batch)``.

        Writing takes far longer than reading, so these are of the test split alone.
        """
        return {}

    def generate(self, model: nn.Module, batch: Any) -> Any:
        """What the model writes from the inputs, without being shown the targets.

        Only asked for where there are :meth:`generation_metrics`.
        """
        raise NotImplementedError

    def notes(self) -> dict[str, str]:
        """What a reader must know to compare a metric, by its name: how it was measured."""
        return {}

    def from_loss(self, loss: float) -> dict[str, float]:  # noqa: ARG002 - see perplexity
        """Metrics that follow from the mean loss alone, at no cost."""
        return {}
