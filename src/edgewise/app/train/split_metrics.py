"""Loss and metrics of a task, accumulated over the batches of a split."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from edgewise._utils.digits import saved
from edgewise.app.train.task import Task


class MeanLoss(Metric):
    """Metric that averages the mean losses of batches, weighted by their number of examples.

    If a loss is NaN, so is the result. MeanMetric of torchmetrics 1.9 is not used, because it
    replaces or drops NaN; with ``nan_strategy="disable"`` it ignores the weights and returned 0.508
    where the mean over examples was 0.468.
    """

    full_state_update = False
    higher_is_better = False
    total: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0.0, dtype=torch.double), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, loss: Tensor, count: int) -> None:
        """Add the mean loss of ``count`` examples."""
        self.total += loss.double() * count
        self.count += count

    def compute(self) -> Tensor:
        """Return the mean loss per example over all batches so far."""
        return self.total / self.count


class SplitMetrics(nn.ModuleDict):
    """Mean loss (under the name "loss") and metrics of a task over the batches of a split.

    Args:
        task: task that computes the loss and gives the metrics.
        keep_examples: whether to keep the metrics of each example, for :meth:`per_example`.
    """

    def __init__(self, task: Task, *, keep_examples: bool = False) -> None:
        super().__init__({"loss": MeanLoss(), **task.metrics()})
        self.task = task
        # A task that overrides the metrics of its base class has other outputs or targets.
        own = issubclass(_owner(task, "per_example_metrics"), _owner(task, "metrics"))
        self.keep_examples = keep_examples and own
        self.examples: dict[str, list[Tensor]] = {}

    def add(self, outputs: Tensor, target: Tensor) -> tuple[Tensor, int]:
        """Add a batch, and return its mean loss and the number of averaged terms."""
        loss, count = self.task.loss(outputs, target), self.task.count(outputs, target)
        for name, metric in metrics_of(self):
            if name == "loss":
                metric.update(loss.detach(), count)
            else:
                metric.update(outputs.detach(), target)
        if self.keep_examples:
            found = self.task.per_example_metrics(outputs.detach(), target)
            for name, values in found.items():
                self.examples.setdefault(name, []).append(values.double().cpu())
        return loss, count

    def per_example(self) -> dict[str, Tensor]:
        """Return the metrics of each example since the last call, and forget them."""
        found = {name: torch.cat(values) for name, values in self.examples.items()}
        self.examples = {}
        return found

    def finish(self) -> dict[str, float]:
        """Return the values of all metrics by name, and reset the metrics.

        They include metrics that are functions of the loss, such as perplexity.
        """
        values = finished(self)
        derived = self.task.from_loss(values["loss"])
        return values | {name: saved(value) for name, value in derived.items()}


def _owner(task: Task, name: str) -> type:
    """Return the class that defines a method of a task."""
    return next(one for one in type(task).__mro__ if name in vars(one))


def metrics_of(metrics: nn.ModuleDict) -> list[tuple[str, Metric]]:
    """Return the pairs of name and metric in a dict of metrics, without other modules."""
    return [(name, metric) for name, metric in metrics.items() if isinstance(metric, Metric)]


def finished(metrics: nn.ModuleDict) -> dict[str, float]:
    """Return the values of metrics by name, rounded by :func:`saved`, and reset the metrics."""
    values = {name: saved(float(metric.compute())) for name, metric in metrics_of(metrics)}
    for _, metric in metrics_of(metrics):
        metric.reset()
    return values
