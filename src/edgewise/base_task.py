"""Base class of tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from edgewise.targets import Target

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Task(ABC):
    """Loss and metrics of model outputs ``[M, ...]``, given targets.

    Example:
        >>> from torch.nn.functional import mse_loss
        >>> from torchmetrics import MeanAbsoluteError
        >>> from edgewise import tasks
        >>> class Squares(tasks.Task):
        ...     def loss(self, outputs, target):
        ...         return mse_loss(outputs, target)
        ...     def metrics(self):
        ...         return {"mae": MeanAbsoluteError()}
        >>> Squares()
        Squares()
    """

    takes: ClassVar[tuple[str, ...]] = ()
    """Names of the data sizes that :meth:`complete` uses. The model factory receives the other
    sizes."""

    def complete(self, model: nn.Module, data_sizes: Mapping[str, int]) -> nn.Module:  # noqa: ARG002
        """Return the model to train: the recipe's model, with the output head of the task, if any.

        Args:
            model: model of the recipe, built with the data sizes that are not in ``takes``.
            data_sizes: the data sizes that are in ``takes``.
        """
        return model

    def with_targets(self, targets: Sequence[Target]) -> Task:  # noqa: ARG002
        """Return the task for the targets of loaded data; most tasks do not depend on them.

        Args:
            targets: :attr:`edgewise.data.Splits.targets`; empty if the data do not describe them.

        Raises:
            ArgumentError: the task cannot predict such targets.
        """
        return self

    def check(self, model: nn.Module, batch: Any) -> None:  # noqa: B027 - subclasses may override it
        """Check the model and the first batch before training.

        Args:
            model: model returned by :meth:`complete`.
            batch: first batch of the data.

        Raises:
            ArgumentError: the model or the data do not suit the task.
        """

    @abstractmethod
    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the mean training loss, a scalar."""

    def count(self, outputs: Tensor, target: Tensor) -> int:  # noqa: ARG002 - part of the interface
        """Return the number of terms averaged in the loss.

        This number is the weight of the batch when losses of batches and processes are averaged.
        """
        return len(target)

    @abstractmethod
    def metrics(self) -> dict[str, Metric]:
        """Return new metrics by name, for one split.

        Raises:
            MissingExtraError: torchmetrics is not installed.
        """

    def possible_metrics(self) -> dict[str, Metric]:
        """Return the metrics by name that :meth:`with_targets` may give, for any targets."""
        return self.metrics()

    def generation_metrics(self) -> dict[str, Metric]:
        """Return new metrics of generated outputs by name, updated as ``(generated, batch)``.

        Generated outputs are for example translations, or a ranking of nodes for each node. These
        metrics are computed on the test split only, because generation is slow.
        """
        return {}

    def generate(self, model: Callable[..., Any], batch: Any) -> Any:
        """Generate outputs from the inputs of a batch, without its targets.

        This method is called only if :meth:`generation_metrics` is not empty.
        """
        raise NotImplementedError

    def notes(self) -> dict[str, str]:
        """Return remarks on how metrics are measured, by metric name."""
        return {}

    def from_loss(self, loss: float) -> dict[str, float]:  # noqa: ARG002 - part of the interface
        """Return metrics computed from the mean loss alone, such as perplexity."""
        return {}
