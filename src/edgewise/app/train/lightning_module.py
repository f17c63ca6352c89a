"""LightningModule that combines a model, a task and an optimizer."""

# ruff: noqa: ARG002 - Lightning passes more arguments to its hooks than they need
from __future__ import annotations

import math
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor, nn
from torchmetrics import Metric

from edgewise._utils.errors import ArgumentError
from edgewise.app.train.batches import Batch, as_batch, as_input_batch, explain_batch_errors
from edgewise.app.train.process import all_reduce
from edgewise.app.train.recipe import OptimizerSettings
from edgewise.app.train.schedule import ConstantSchedule, Schedule
from edgewise.app.train.split_metrics import SplitMetrics, compute_and_reset
from edgewise.app.train.task import Task
from edgewise.layers import Cache, collect_penalties


class TrainingModule(lightning.LightningModule):
    """LightningModule for a model, a task and an optimizer. It works with any Lightning Trainer.

    Loss and metrics, such as ``train/loss`` and ``val/accuracy``, are reported after each
    validation, or each epoch without one: to the loggers, in ``trainer.callback_metrics`` and in
    ``measured``. They are not reported after each step, because this would take longer than a step
    on a small graph. ``trainer.validate`` and ``trainer.test`` return them.

    Batches have the forms that :func:`edgewise.app.train.fit` accepts. ``trainer.predict`` returns
    the model's outputs; its batches may lack the target.

    Args:
        model: called as ``model(*batch.inputs, **batch.keywords)``.
        task: loss and metrics.
        optimizer: optimizer settings; needed only for training.
        schedule: learning-rate schedule. Constant by default.
        steps: total number of optimizer steps, for the schedule; 0 asks the Trainer.

    Attributes:
        measured: last reported loss and metrics, by name.
        carried: for each split, the cache (recurrent state) of the model after the last batch, for
            batches that continue a text.

    Example:
        >>> from torch import nn
        >>> from edgewise.app.train import Classification, OptimizerSettings, TrainingModule
        >>> module = TrainingModule(nn.Linear(8, 2), Classification(), OptimizerSettings(lr=0.01))
        >>> # lightning.Trainer(max_epochs=5).fit(module, train_loader, val_loader)
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
        self.checked = self.has_unreported_steps = False
        self.train_metrics, self.val_metrics, self.test_metrics = (
            SplitMetrics(task, keep_examples=split == "test") for split in ("train", "val", "test")
        )
        for metric in self.train_metrics.modules():
            if isinstance(metric, Metric):
                # Save metric states in the checkpoint. After a resume in mid-epoch, the metrics
                # then include the batches before the interruption.
                metric.persistent(True)
        self.generation_metrics = nn.ModuleDict(task.generation_metrics())

    def copy_weights(self) -> dict[str, Tensor]:
        """Return a copy of the weights of the model."""
        return deepcopy(self.model.state_dict())

    def clip_gradient_norm(self, most: float) -> None:
        """Scale the gradients, in place, to a norm of at most ``most``."""
        nn.utils.clip_grad_norm_(self.parameters(), most)

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        return self.model(*inputs, **keywords)

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Batch:
        converted: Batch = as_input_batch(batch) if self.trainer.predicting else as_batch(batch)
        return converted.to(device)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        with explain_batch_errors(batch, self.model, self.task), collect_penalties() as penalties:
            if not self.checked:
                self.task.check(self.model, batch)
                self.checked = True
            loss, count = self._measured(batch, "train")
        loss = sum((penalty / self.task.views for penalty in penalties), loss)
        self.has_unreported_steps = True
        # Lightning divides by accumulate_grad_batches, even if fewer batches are left for the step.
        # The number of batches is infinite if the loader has no length.
        accumulated = self.trainer.accumulate_grad_batches
        left = self.trainer.num_training_batches - batch_idx // accumulated * accumulated
        scale = accumulated / min(accumulated, left)
        if self.trainer.world_size > 1:
            # DDP averages gradients over processes, but their batches can have different sizes.
            # Processes that divide the heads have the same examples.
            scale *= count * self.trainer.world_size / all_reduce(self.trainer, count, "sum")
        return loss if scale == 1 else loss * scale

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        with explain_batch_errors(batch, self.model, self.task):
            self._measured(batch, "val")

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        with explain_batch_errors(batch, self.model, self.task):
            self._measured(batch, "test")
        # The target is empty if other processes have all examples of this batch.
        if self.generation_metrics and len(batch.target):
            texts = self.task.generate(self.model, batch)
            metrics: Iterable[Any] = self.generation_metrics.values()
            for metric in metrics:
                metric.update(texts, batch)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        with explain_batch_errors(batch, self.model, self.task):
            return batch.select_outputs(self._outputs(batch, "predict"))

    def _outputs(self, batch: Batch, split: str) -> Tensor:
        """Return the model's outputs for a batch; in training, those of ``task.views`` calls."""
        if batch.continues is None:
            num_views = self.task.views if split == "train" else 1
            views = [batch.outputs(self.model) for _ in range(num_views)]
            return torch.stack(views, dim=1) if num_views > 1 else views[0]
        cache = self.carried.get(split) if batch.continues else None
        cache = self.carried[split] = Cache() if cache is None else cache
        outputs: Tensor = self.model(*batch.inputs, cache=cache, **batch.keywords)
        cache.detach()
        return outputs

    def _measured(self, batch: Batch, split: str) -> tuple[Tensor, int]:
        """Return the mean loss of a batch and its number of terms, and update the metrics."""
        outputs = batch.select_outputs(self._outputs(batch, split))
        if outputs.dtype in (torch.bfloat16, torch.float16):
            outputs = outputs.float()
        if not len(batch.target):  # Other processes have all examples of this batch.
            return outputs.sum() * 0, 0
        metrics: SplitMetrics = getattr(self, f"{split}_metrics")
        return metrics.add(outputs, batch.target)

    def on_validation_epoch_end(self) -> None:
        # While fitting, validation ends an epoch, so callbacks can monitor metrics of both splits.
        self._report(*(["train"] if self.trainer.state.fn == "fit" else []), "val")

    def on_train_epoch_end(self) -> None:
        if self.has_unreported_steps:  # No validation followed the last step.
            self._report("train")

    def on_test_epoch_end(self) -> None:
        self._report("test")

    def _report(self, *splits: str) -> None:
        """Report and reset metrics of splits; ``self.log`` would take a tenth more time."""
        if self.trainer.sanity_checking:
            self.val_metrics.finish()
            return
        measured: dict[str, float] = {}
        for split in splits:
            values = getattr(self, f"{split}_metrics").finish()
            if split == "train":
                self.has_unreported_steps = False
            elif split == "test":
                values |= compute_and_reset(self.generation_metrics)
            measured |= {f"{split}/{name}": value for name, value in values.items()}
        self.measured = measured
        if self.trainer.state.fn != "fit":  # Lightning returns, and logs, what `self.log` records.
            dtype = torch.float if self.device.type == "mps" else torch.double
            logged = {
                name: torch.tensor(value, dtype=dtype, device=self.device)
                for name, value in measured.items()
            }
            self.log_dict(logged, sync_dist=self.trainer.world_size > 1)
            return
        self.trainer.callback_metrics.update(
            {name: torch.tensor(value, dtype=torch.double) for name, value in measured.items()}
        )
        for logger in self.trainer.loggers:
            logger.log_metrics(
                {**measured, "epoch": self.trainer.current_epoch}, self.trainer.global_step
            )

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        # Lightning's own method refuses fused optimizers in mixed precision, because float16 needs
        # scaled gradients. bfloat16 does not.
        if gradient_clip_val and gradient_clip_algorithm == "value":
            nn.utils.clip_grad_value_(self.parameters(), gradient_clip_val)
        elif gradient_clip_val:
            self.clip_gradient_norm(gradient_clip_val)

    def configure_optimizers(self) -> Any:
        if self.settings is None:
            raise ArgumentError(
                "optimizer",
                expected="optimizer settings, which training needs",
                got="None",
                remedy="pass TrainingModule(model, task, training.OptimizerSettings(lr=0.001))",
            )
        optimizer = self.settings.build(self.model)
        if isinstance(self.schedule, ConstantSchedule):
            return optimizer
        # `fit` sets the steps: estimated_stepping_batches sets up the loader before its state is
        # restored, so that a resumed epoch would start from its first batch.
        steps = self.steps or self.trainer.estimated_stepping_batches
        if math.isinf(steps):
            raise ArgumentError(
                "steps",
                expected="the number of optimizer steps, which the schedule needs",
                got="0, and a Trainer without a limit",
                remedy="pass TrainingModule(..., steps=10000), or max_steps to the Trainer",
            )
        factor = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: self.schedule.factor(step, int(steps))
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": factor, "interval": "step"}}
