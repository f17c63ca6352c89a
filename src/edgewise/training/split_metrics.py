"""Loss and metrics of a task, accumulated over the batches of a split."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from edgewise.base_task import Task


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
        self.add_state("total", torch.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, loss: Tensor, count: int) -> None:
        """Add the mean loss of ``count`` examples."""
        self.total += loss * count
        self.count += count

    def compute(self) -> Tensor:
        """Return the mean loss per example over all batches so far."""
        return self.total / self.count


class SplitMetrics(nn.ModuleDict):
    """Mean loss (under the name "loss") and metrics of a task over the batches of a split.

    Args:
        task: task that computes the loss and gives the metrics.
        keep_examples: whether to keep the scores of each example, for :meth:`example_scores`.
    """

    def __init__(self, task: Task, *, keep_examples: bool = False) -> None:
        super().__init__({"loss": MeanLoss(), **task.metrics()})
        self.task, self.keep_examples = task, keep_examples
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
            for name, scores in self.task.example_scores(outputs.detach(), target).items():
                self.examples.setdefault(name, []).append(scores.float().cpu())
        return loss, count

    def example_scores(self) -> dict[str, Tensor]:
        """Return :meth:`edgewise.tasks.Task.example_scores` of all batches so far."""
        return {name: torch.cat(scores) for name, scores in self.examples.items()}

    def finish(self) -> dict[str, float]:
        """Return the values of all metrics by name, and reset the metrics.

        They include metrics that are functions of the loss, such as perplexity.
        """
        values = finished(self)
        return values | {
            name: round(value, 6) for name, value in self.task.from_loss(values["loss"]).items()
        }


def metrics_of(metrics: nn.ModuleDict) -> list[tuple[str, Metric]]:
    """Return the pairs of name and metric in a dict of metrics, without other modules."""
    return [(name, metric) for name, metric in metrics.items() if isinstance(metric, Metric)]


def finished(metrics: nn.ModuleDict) -> dict[str, float]:
    """Return the values of metrics by name, rounded to six decimals, and reset the metrics."""
    values = {name: round(float(metric.compute()), 6) for name, metric in metrics_of(metrics)}
    for _, metric in metrics_of(metrics):
        metric.reset()
    return values
