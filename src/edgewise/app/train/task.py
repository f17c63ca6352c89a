"""Base class of tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from edgewise.app.files.targets import Target

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Task(ABC):
    """Base class of tasks: loss and metrics of model outputs ``[M, ...]``, given M targets.

    Example:
        >>> from torch.nn.functional import mse_loss
        >>> from torchmetrics import MeanAbsoluteError
        >>> from edgewise.app.train import Task
        >>> class Squares(Task):
        ...     def loss(self, outputs, target):
        ...         return mse_loss(outputs, target)
        ...     def metrics(self):
        ...         return {"mae": MeanAbsoluteError()}
        >>> Squares()
        Squares()
    """

    takes: ClassVar[tuple[str, ...]] = ()
    """Sizes of the data, such as "longest_text", that :meth:`complete` receives. The function that
    builds the model receives the other sizes."""
    views = 1
    """Number of times that a training step calls the model, with different dropout. Outputs of
    several calls are stacked: the loss and metrics receive ``[M, views, ...]``."""

    def complete(self, model: nn.Module, data_sizes: Mapping[str, int]) -> nn.Module:  # noqa: ARG002
        """Return ``model`` with the task's output head, built with the data sizes in ``takes``."""
        return model

    def with_targets(
        self,
        targets: Sequence[Target],  # noqa: ARG002
        class_counts: Sequence[int] = (),  # noqa: ARG002
    ) -> Task:
        """Return a copy of the task that fits the loaded targets; most tasks return themselves.

        Raises:
            ArgumentError: the task cannot predict such targets.
        """
        return self

    def check(self, model: nn.Module, batch: Any) -> None:  # noqa: B027 - subclasses may override it
        """Check the model and the first batch before training.

        Raises:
            ArgumentError: the model or the data do not suit the task.
        """

    @abstractmethod
    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the training loss, averaged over the targets ``[M, ...]``, as a scalar."""

    def count(self, outputs: Tensor, target: Tensor) -> int:  # noqa: ARG002 - part of the interface
        """Return the number of terms averaged in the loss, the weight of the batch in averages."""
        return len(target)

    @abstractmethod
    def metrics(self) -> dict[str, Metric]:
        """Return new torchmetrics objects by name, for one split."""

    def per_example_metrics(self, outputs: Tensor, target: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Return metrics and target of each example, for paired tests of two methods.

        Metrics without a value for one example, such as ROC-AUC, are left out.

        Returns:
            Tensors with one value for each example that has a target: by the name of the metric,
            and ``"target"``, which shows whether two methods were tested on the same examples. The
            values of ``"rmse"`` are squared errors. Empty if the task has no such metrics.
        """
        return {}

    def possible_metrics(self) -> dict[str, Metric]:
        """Return, by name, all metrics that a task returned by :meth:`with_targets` may have."""
        return self.metrics()

    def generation_metrics(self) -> dict[str, Metric]:
        """Return new metrics of generated outputs, such as translations, by name.

        They are updated with ``metric.update(generated, batch)``. They are computed on the test
        split only, because generation is slow.
        """
        return {}

    def generate(self, model: Callable[..., Any], batch: Any) -> Any:
        """Generate outputs from the inputs of a batch, without its targets.

        This method is called only if :meth:`generation_metrics` is not empty.
        """
        raise NotImplementedError

    def notes(self) -> dict[str, str]:
        """Return remarks on how metrics are computed, by metric name."""
        return {}

    def from_loss(self, loss: float) -> dict[str, float]:  # noqa: ARG002 - part of the interface
        """Return metrics that are functions of the mean loss, such as perplexity, by name."""
        return {}
