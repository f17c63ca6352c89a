"""What every task says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

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
