"""Settings of the training loop: number of epochs, monitored metric, early stopping, devices."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import nn

from edgewise._utils.arguments import check_choice, check_range
from edgewise._utils.errors import ArgumentError, unknown_name
from edgewise.app.files.targets import Target
from edgewise.app.train.backbone import trunk_names
from edgewise.app.train.distributed import rank_and_world_size

Mode = Literal["max", "min"]
Accelerator = Literal["auto", "cpu", "gpu"]
Precision = Literal["32", "bf16"]


@dataclass(frozen=True)
class TrainerSettings:
    """Settings of the training loop.

    In a recipe, they are the field ``trainer``. On the command line, they are options such as
    ``--trainer.epochs``.

    Attributes:
        epochs: maximum number of epochs.
        patience: number of epochs without improvement after which training stops; 0 disables
            early stopping.
        monitor: metric that selects the best epoch. The weights of this epoch are the result. Ties
            go to the epoch with the lowest ``val/loss``, then to the earliest. For data sets that
            describe their target columns, such as your own tables, ``val/loss`` with mode "min"
            replaces ``val/accuracy``.
        mode: whether the best epoch has the maximum or the minimum of ``monitor``.
        ema_decay: decay per step of an exponential moving average of the weights, such as 0.99. The
            averaged weights are validated, tested and saved. 0 disables averaging.
        average_last_epochs: number of last epochs over which weights are averaged. The averaged
            weights are validated, tested and saved. 0 disables averaging. It cannot be combined
            with ``ema_decay``.
        accumulate_grad_batches: number of batches whose gradients are averaged for one optimizer
            step. The last step of an epoch uses the remaining batches.
        precision: ``32`` for float32; ``bf16`` for mixed precision with bfloat16 matrix products
            and float32 weights.
        freeze_backbone_epochs: number of first epochs in which only the head is trained and the
            pretrained backbone of a text or graph model is frozen.
        clip_norm: maximum gradient norm; 0 disables clipping.
        accelerator: ``auto`` uses a GPU if there is one; Apple GPUs are not used, because they have
            no float64, in which metrics are computed.
        devices: number of GPUs, or of processes on the CPU. In every step, each device processes a
            batch of ``data.batch_size``, so the effective batch size is ``devices`` times larger.
        save_every: minimum number of seconds between two checkpoints, which is raised to 20 times
            the time for saving a checkpoint. A killed run loses the training since the last
            checkpoint.

    Example:
        >>> from edgewise.app.train import TrainerSettings
        >>> settings = TrainerSettings(epochs=20, monitor="val/loss", mode="min")
        >>> settings.epochs, settings.precision
        (20, '32')
    """

    epochs: int = 100
    patience: int = 0
    monitor: str = "val/accuracy"
    mode: Mode = "max"
    ema_decay: float = 0.0
    average_last_epochs: int = 0
    accumulate_grad_batches: int = 1
    precision: Precision = "32"
    freeze_backbone_epochs: int = 0
    clip_norm: float = 0.0
    accelerator: Accelerator = "auto"
    devices: int = 1
    save_every: float = 5.0

    def __post_init__(self) -> None:
        choices = {"mode": Mode, "accelerator": Accelerator, "precision": Precision}
        for name, allowed in choices.items():
            check_choice(f"trainer.{name}", getattr(self, name), get_args(allowed))
        for name, usual in (("epochs", 100), ("accumulate_grad_batches", 1), ("devices", 1)):
            check_range(
                f"trainer.{name}", getattr(self, name), f"choose for example {usual}", least=1
            )
        for name in ("patience", "freeze_backbone_epochs", "clip_norm"):
            check_range(
                f"trainer.{name}", getattr(self, name), f"choose 0 to disable {name}", least=0
            )
        check_range("trainer.save_every", self.save_every, "choose for example 60", least=0)
        remedy = "choose for example 0.99, or 0 for no moving average"
        check_range("trainer.ema_decay", self.ema_decay, remedy, least=0, below=1)
        if self.average_last_epochs < 0 or (self.average_last_epochs and self.ema_decay):
            raise ArgumentError(
                "trainer.average_last_epochs",
                expected="an integer of at least 0, and 0 if trainer.ema_decay is set",
                got=f"{self.average_last_epochs!r} with trainer.ema_decay {self.ema_decay!r}",
                remedy="set one of trainer.average_last_epochs and trainer.ema_decay to 0",
            )

    def for_targets(self, targets: Sequence[Target]) -> TrainerSettings:
        """Return the settings with ``val/loss`` in place of ``val/accuracy`` if there are targets.

        Numbers have no accuracy, and the mean accuracy of several labels hardly changes during
        training if most labels are rare.
        """
        if targets and self.monitor == "val/accuracy":
            return replace(self, monitor="val/loss", mode="min")
        return self

    def check(self, metrics: Iterable[str], model: nn.Module | None = None) -> None:
        """Check that the settings fit the task, the model and this machine.

        Raises:
            ArgumentError: ``monitor`` is not a metric, the device does not exist, or
                ``freeze_backbone_epochs`` is set and the model has no head.
        """
        if self.freeze_backbone_epochs and model is not None:
            names = [name for name, _ in model.named_parameters()]
            if not 0 < len(trunk_names(names)) < len(names):
                raise ArgumentError(
                    "trainer.freeze_backbone_epochs",
                    expected="a model with a separate head, such as a model of texts or molecules",
                    got=f"a {type(model).__name__}",
                    remedy="set trainer.freeze_backbone_epochs to 0",
                )
        monitored = [f"{split}/{name}" for split in ("train", "val") for name in ("loss", *metrics)]
        if self.monitor not in monitored:
            raise unknown_name("trainer.monitor", self.monitor, monitored)
        if self.accelerator == "gpu" and not torch.accelerator.is_available():
            raise ArgumentError(
                "trainer.accelerator",
                expected="an accelerator that this machine has",
                got="gpu, but there is no GPU",
                remedy="choose auto or cpu",
            )
        most, what = os.cpu_count() or 1, "processors"
        if self.accelerator != "cpu" and torch.accelerator.is_available():
            most, what = torch.accelerator.device_count(), "GPUs"
        # torchrun has started this process, and may use several machines.
        started = rank_and_world_size()[1] > 1
        if self.devices > most and not started:
            raise ArgumentError(
                "trainer.devices",
                expected=f"at most {most}, the number of {what} of this machine",
                got=repr(self.devices),
                remedy="choose fewer devices" + ", or trainer.accelerator cpu" * (what == "GPUs"),
            )
