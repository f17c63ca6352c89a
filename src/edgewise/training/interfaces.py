"""What training asks of data and of tasks, which do not know it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor, nn

from edgewise.batches import Batch

if TYPE_CHECKING:
    from torchmetrics import Metric


class Loader(Protocol):
    """The batches of an epoch."""

    def __len__(self) -> int: ...
    def share(self, rank: int, world: int) -> None: ...
    def __iter__(self) -> Iterator[Batch]: ...


class Task(Protocol):
    """A loss and metrics."""

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor: ...
    def metrics(self) -> dict[str, Metric]: ...
    def write(self, model: nn.Module, batch: Any) -> Any: ...
    def writing_metrics(self) -> dict[str, Metric]: ...
    def notes(self) -> dict[str, str]: ...
    def from_loss(self, loss: float) -> dict[str, float]: ...
