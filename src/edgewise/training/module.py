"""A model, a task and an optimizer as Lightning wants them."""

# ruff: noqa: ARG002 - Lightning passes its hooks more than they need
from __future__ import annotations

from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor, nn
from torchmetrics import Metric

from edgewise.batches import Batch
from edgewise.training.interfaces import Task
from edgewise.training.optimizer import Optimizer
from edgewise.training.processes import total
from edgewise.training.schedule import Constant, Schedule


class MeanLoss(Metric):
    """The mean over examples of losses that are means over a batch; NaN stays NaN.

    (torchmetrics' own MeanMetric forgets the weights where it is told to leave NaN alone.)
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


class Fitting(lightning.LightningModule):
    """The steps of training; what they measure is asked for with :meth:`finish`.

    Metrics are asked for once an epoch instead of logged at every step, which for a small graph
    costs more than the step. The training metrics are part of the state, so that an epoch that is
    continued reports all of its batches.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        optimizer: Optimizer | None = None,
        schedule: Schedule | None = None,
        steps: int = 0,
    ) -> None:
        super().__init__()
        self.model, self.task = model, task
        self.settings, self.schedule, self.steps = optimizer, schedule or Constant(), steps
        self.train_meters, self.val_meters, self.test_meters = (self._meters() for _ in range(3))
        for _, meter in _each(self.train_meters):
            meter.persistent(True)
        self.written = nn.ModuleDict(task.writing_metrics())

    def _meters(self) -> nn.ModuleDict:
        return nn.ModuleDict({"loss": MeanLoss(), **self.task.metrics()})

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        return batch.to(device)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss = self._measured(batch, self.train_meters)
        # Lightning divides by the number of batches that a step takes, also where fewer are left.
        at_once = self.trainer.accumulate_grad_batches
        left = int(self.trainer.num_training_batches) - batch_idx // at_once * at_once
        scale = at_once / min(at_once, left)
        if self.trainer.world_size > 1:
            # Gradients are averaged over processes, whose batches may be of different sizes.
            count = len(batch.target)
            scale *= count * self.trainer.world_size / total(self.trainer, count)
        return loss if scale == 1 else loss * scale

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._measured(batch, self.val_meters)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        self._measured(batch, self.test_meters)
        if self.written and len(batch.target):  # else another process has all of this batch
            texts = self.task.write(self.model, batch)
            for _, meter in _each(self.written):
                meter.update(texts, batch)

    def _measured(self, batch: Batch, meters: nn.ModuleDict) -> Tensor:
        outputs = batch.counted(self.model(*batch.inputs, **batch.keywords))
        if outputs.dtype in (torch.bfloat16, torch.float16):
            outputs = outputs.float()
        if not len(batch.target):  # another process has all the examples of this batch
            return outputs.sum() * 0
        loss = self.task.loss(outputs, batch.target)
        for name, meter in _each(meters):
            if name == "loss":
                meter.update(loss.detach(), len(batch.target))
            else:
                meter.update(outputs.detach(), batch.target)
        return loss

    def finish(self, split: str) -> dict[str, float]:
        """The metrics of a split since the last call, such as ``{"val/loss": ...}``."""
        meters = dict(_each(getattr(self, f"{split}_meters")))
        if split == "test":
            meters |= dict(_each(self.written))
        values = {
            f"{split}/{name}": round(float(meter.compute()), 6) for name, meter in meters.items()
        }
        for name, value in self.task.from_loss(values[f"{split}/loss"]).items():
            values[f"{split}/{name}"] = round(value, 6)
        for meter in meters.values():
            meter.reset()
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
        if isinstance(self.schedule, Constant):
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


def _each(meters: nn.ModuleDict) -> list[tuple[str, Metric]]:
    return [(name, meter) for name, meter in meters.items() if isinstance(meter, Metric)]
