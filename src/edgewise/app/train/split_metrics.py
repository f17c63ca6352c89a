"""Loss and metrics of a task, accumulated over the batches of a split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric, Metric

from edgewise._utils.digits import saved
from edgewise.app.train.task import Task


class MeanLoss(MeanMetric):
    """Mean of batch losses weighted by their terms; that of torchmetrics waits for the GPU."""

    def update(self, loss: Tensor, count: int) -> None:  # type: ignore[override]
        self.mean_value += loss.double() * count
        self.weight += count


class SplitMetrics(nn.ModuleDict):
    """Mean loss (under the name "loss") and metrics of a task over the batches of a split."""

    def __init__(self, task: Task, *, keep_examples: bool = False) -> None:
        loss = MeanLoss(nan_strategy="disable").set_dtype(torch.double)
        super().__init__({"loss": loss, **task.metrics()})
        self.task = task
        if keep_examples:
            # A task that overrides the metrics of its base class has other outputs or targets.
            per_example, metrics = (
                next(base for base in type(task).__mro__ if name in vars(base))
                for name in ("per_example_metrics", "metrics")
            )
            keep_examples = issubclass(per_example, metrics)
        self.keep_examples = keep_examples
        self.per_example: dict[str, Tensor] = {}
        self._examples: dict[str, list[Tensor]] = {}

    def add(self, outputs: Tensor, target: Tensor) -> tuple[Tensor, int]:
        """Add a batch, and return its mean loss and the number of averaged terms."""
        loss, count = self.task.loss(outputs, target), self.task.count(outputs, target)
        outputs = outputs.detach()
        metrics: Iterable[tuple[str, Any]] = self.items()
        for name, metric in metrics:
            if name == "loss":
                metric.update(loss.detach(), count)
            else:
                metric.update(outputs, target)
        if self.keep_examples:
            for name, values in self.task.per_example_metrics(outputs, target).items():
                self._examples.setdefault(name, []).append(values.double().cpu())
        return loss, count

    def add_states(self, other: SplitMetrics) -> None:
        """Add the batches of other metrics of the same task."""
        for metric, added in zip(self.modules(), other.modules(), strict=True):
            if not isinstance(metric, Metric):
                continue
            # Metric.merge_state refuses metrics that compute a batch alone in another way.
            reductions: dict[str, Any] = metric._reductions
            for name, reduce in reductions.items():
                mine, more = getattr(metric, name), getattr(added, name)
                both = mine + more if isinstance(mine, list) else reduce(torch.stack([mine, more]))
                setattr(metric, name, both)

    def finish(self) -> dict[str, float]:
        """Return the values of all metrics by name, and reset the metrics. The metrics of each
        example are then in ``per_example``.
        """
        self.per_example = {name: torch.cat(values) for name, values in self._examples.items()}
        self._examples = {}
        values = compute_and_reset(self)
        derived = self.task.from_loss(values["loss"])
        return values | {name: saved(value) for name, value in derived.items()}


def compute_and_reset(metrics: nn.ModuleDict) -> dict[str, float]:
    """Return the values of torchmetrics objects by name, rounded by :func:`saved`."""
    pairs: list[tuple[str, Any]] = list(metrics.items())
    values = {name: saved(float(metric.compute())) for name, metric in pairs}
    for _, metric in pairs:
        metric.reset()
    return values
