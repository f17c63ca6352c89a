"""What every task says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Task(ABC):
    """A loss and metrics, both of the outputs ``[M, ...]`` that count and their targets."""

    @abstractmethod
    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """The mean loss to train on, a scalar."""

    @abstractmethod
    def metrics(self) -> dict[str, Metric]:
        """New metrics by name, for one split.

        Raises:
            MissingExtraError: torchmetrics is not installed.

        """

    def writing_metrics(self) -> dict[str, Metric]:
        """New metrics by name of what the model writes, updated ``(written, batch)``.

        Writing takes far longer than reading, so these are of the test split alone.
        """
        return {}

    def write(self, model: nn.Module, batch: Any) -> Any:
        """What the model makes of the inputs without being shown the targets.

        Only asked for where there are :meth:`writing_metrics`.
        """
        raise NotImplementedError

    def notes(self) -> dict[str, str]:
        """What a reader must know to compare a metric, by its name: how it was measured."""
        return {}
