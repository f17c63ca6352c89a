"""The LightningModule: a model, a task and an optimizer as Lightning's Trainer wants them."""

# ruff: noqa: ARG002 - Lightning passes its hooks more than they need
from __future__ import annotations

from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor, nn
from torchmetrics import Metric

from edgewise.base_task import Task
from edgewise.batches import Batch
from edgewise.layers import Cache, Penalised
from edgewise.training.batch_forms import as_batch, explain_batch_errors
from edgewise.training.distributed import all_reduce
from edgewise.training.optimizer import OptimizerSettings
from edgewise.training.schedule import ConstantSchedule, Schedule


class MeanLoss(Metric):
    """The mean over examples of losses that are means over a batch; NaN stays NaN.

    torchmetrics 1.9's MeanMetric replaces or drops a NaN, and with ``nan_strategy="disable"``,
    which keeps it, ignores the weights: it gave 0.508 where the mean over examples was 0.468.
    """

    full_state_update = False
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
        """The mean so far."""
        return self.total / self.count


class TrainingModule(lightning.LightningModule):
    """The LightningModule of a model, a task and an optimizer; works with any Lightning Trainer.

    Loss and metrics are reported when validation ends, as ``train/loss``, ``val/accuracy`` and so
    on: to the loggers, to callbacks in ``trainer.callback_metrics``, and in :attr:`measured`. Not
    at every step, which for a small graph costs more than the step.

    Batches are :class:`edgewise.data.Batch`, tuples ``(input, ..., target)``, dictionaries or PyG's
    graphs, as :func:`edgewise.training.fit` takes them.

    Args:
        model: called ``model(*batch.inputs, **batch.keywords)``.
        task: loss and metrics.
        optimizer: only where it is trained.
        schedule: of the learning rate; a constant one if left out.
        steps: how many steps the schedule is spread over.

    Attributes:
        measured: the metrics that were reported last.
        carried: by split what the model keeps of the last batch for one that follows it.

    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        optimizer: OptimizerSettings | None = None,
        schedule: Schedule | None = None,
        steps: int = 0,
    ) -> None:
        super().__init__()
        self.model, self.task = model, task
        self.settings, self.schedule, self.steps = optimizer, schedule or ConstantSchedule(), steps
        self.measured: dict[str, float] = {}
        self.carried: dict[str, Cache] = {}
        self.checked = False
        self.train_metrics, self.val_metrics, self.test_metrics = (
            nn.ModuleDict({"loss": MeanLoss(), **task.metrics()}) for _ in range(3)
        )
        for metric in self.train_metrics.modules():
            if isinstance(metric, Metric):  # also those that others are made of
                metric.persistent(True)  # so that an epoch that is continued reports all of it
        self.penalised = [m for m in model.modules() if isinstance(m, Penalised)]
        self.generation_metrics = nn.ModuleDict(task.generation_metrics())

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Batch:
        return as_batch(batch)

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        return batch.to(device)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        with explain_batch_errors(batch, self.model, self.task):
            if not self.checked:
                self.task.check(self.model, batch)
                self.checked = True
            loss, count = self._measured(batch, "train")
        for module in self.penalised:
            loss = loss + module.penalty()
        # Lightning divides by the number of batches that a step takes, also where fewer are left.
        at_once = self.trainer.accumulate_grad_batches
        left = int(self.trainer.num_training_batches) - batch_idx // at_once * at_once
        scale = at_once / min(at_once, left)
        if self.trainer.world_size > 1:
            # Gradients are averaged over processes, whose batches may be of different sizes.
            scale *= count * self.trainer.world_size / all_reduce(self.trainer, count, "sum")
        return loss if scale == 1 else loss * scale

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        with explain_batch_errors(batch, self.model, self.task):
            self._measured(batch, "val")

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        with explain_batch_errors(batch, self.model, self.task):
            self._measured(batch, "test")
        here = len(batch.target) > 0  # else another process has all of this batch
        if self.generation_metrics and here:
            texts = self.task.generate(self.model, batch)
            for _, metric in _each(self.generation_metrics):
                metric.update(texts, batch)

    def _outputs(self, batch: Batch, split: str) -> Tensor:
        """What the model says, given what it kept of the batch before where this one follows it."""
        if batch.follows is None:
            outputs: Tensor = self.model(*batch.inputs, **batch.keywords)
            return outputs
        cache = self.carried.get(split) if batch.follows else None
        cache = self.carried[split] = Cache() if cache is None else cache
        outputs = self.model(*batch.inputs, cache=cache, **batch.keywords)
        cache.detach()
        return outputs

    def _measured(self, batch: Batch, split: str) -> tuple[Tensor, int]:
        """The mean loss of a batch, and of how many that is."""
        outputs = batch.counted(self._outputs(batch, split))
        if outputs.dtype in (torch.bfloat16, torch.float16):
            outputs = outputs.float()
        if not len(batch.target):  # another process has all the examples of this batch
            return outputs.sum() * 0, 0
        loss = self.task.loss(outputs, batch.target)
        count = self.task.count(outputs, batch.target)
        for name, metric in _each(getattr(self, f"{split}_metrics")):
            if name == "loss":
                metric.update(loss.detach(), count)
            else:
                metric.update(outputs.detach(), batch.target)
        return loss, count

    def on_validation_epoch_end(self) -> None:
        if self.trainer.sanity_checking:
            self._finish("val")
            return
        # In a fit, validation is the end of an epoch: what callbacks monitor is all there then.
        training = self._finish("train") if self.trainer.state.fn == "fit" else {}
        self._report(training | self._finish("val"))

    def on_test_epoch_end(self) -> None:
        self._report(self._finish("test"))

    def _report(self, measured: dict[str, float]) -> None:
        """Log what all processes have measured together.

        Not by ``self.log``, which makes a metric of each number: on gcn-cora that was a quarter of
        an epoch's time.
        """
        self.measured = measured
        self.trainer.callback_metrics.update(
            {name: torch.tensor(value, dtype=torch.double) for name, value in measured.items()}
        )
        for logger in self.trainer.loggers:
            logger.log_metrics(
                {**measured, "epoch": self.trainer.current_epoch}, self.trainer.global_step
            )

    def _finish(self, split: str) -> dict[str, float]:
        """The metrics of a split since the last call, such as ``{"val/loss": ...}``."""
        metrics = dict(_each(getattr(self, f"{split}_metrics")))
        if split == "test":
            metrics |= dict(_each(self.generation_metrics))
        values = {
            f"{split}/{name}": round(float(metric.compute()), 6) for name, metric in metrics.items()
        }
        for name, value in self.task.from_loss(values[f"{split}/loss"]).items():
            values[f"{split}/{name}"] = round(value, 6)
        for metric in metrics.values():
            metric.reset()
        return values

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        # Lightning's own refuses a fused optimizer in mixed precision, for float16's sake, whose
        # gradients are scaled; bfloat16's are not.
        if gradient_clip_val:
            nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)

    def configure_optimizers(self) -> Any:
        assert self.settings is not None
        optimizer = self.settings.build(self.model)
        if isinstance(self.schedule, ConstantSchedule):
            return optimizer
        # Not Lightning's estimated_stepping_batches, which sets the loader up before its state is
        # restored, so that a continued epoch would begin again.
        factor = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: self.schedule.factor(step, self.steps)
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": factor, "interval": "step"},
        }


def _each(metrics: nn.ModuleDict) -> list[tuple[str, Metric]]:
    return [(name, metric) for name, metric in metrics.items() if isinstance(metric, Metric)]
