"""How long to train, what to watch, and when to stop."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import nn

from edgewise.arguments import check_choice, check_from_zero, check_least
from edgewise.errors import ArgumentError, unknown_name
from edgewise.training.distributed import rank_and_world_size
from edgewise.training.trunk import trunk_names

Better = Literal["higher", "lower"]
Accelerator = Literal["auto", "cpu", "gpu"]
Precision = Literal["32", "bf16"]


@dataclass(frozen=True)
class TrainerSettings:
    """What Lightning's Trainer is told of a run: how long, what to monitor, when to stop.

    A recipe has it as its ``trainer``, and the command line its fields as ``--trainer.epochs`` and
    so on: by the name of what they set.

    Attributes:
        epochs: the most passes over the training data.
        patience: stop after this many epochs without a better value; 0 never stops early.
        monitor: the metric whose best epoch gives the final weights; the first of equals.
        better: whether a higher or a lower value of it is better.
        average: the decay, a step, of a moving average of the weights, such as 0.99; the average is
            then what is validated, tested and kept. 0 takes the weights as they are.
        average_last: the mean of the weights after each of the last so many epochs is validated,
            tested and kept instead; 0 takes them as they are. Only one of the two averages.
        accumulate: batches whose mean gradient makes one step, as if they were one batch; an
            epoch's last step takes those that are left.
        precision: ``32``; ``bf16`` computes matrix products in bfloat16 and keeps the weights and
            sums in float32.
        head_first: epochs at the beginning in which the trunk of a text or graph model stays as it
            is, and only the head on it is trained; for a start from a trained one.
        clip_norm: gradients are scaled down to this norm; 0 leaves them as they are.
        accelerator: ``auto`` takes a GPU where there is one.
        devices: how many GPUs, or processes on the CPU, take part in every step, each with a batch
            of the data's size; as one would with a batch that many times as large.
        save_every: seconds between two checkpoints, which is what a killed run loses at most
            (saving takes longer breaks where it takes more than a twentieth of the time).

    """

    epochs: int = 100
    patience: int = 0
    monitor: str = "val/accuracy"
    better: Better = "higher"
    average: float = 0.0
    average_last: int = 0
    accumulate: int = 1
    precision: Precision = "32"
    head_first: int = 0
    clip_norm: float = 0.0
    accelerator: Accelerator = "auto"
    devices: int = 1
    save_every: float = 5.0

    def __post_init__(self) -> None:
        choices = {"better": Better, "accelerator": Accelerator, "precision": Precision}
        for name, known in choices.items():
            check_choice(f"trainer.{name}", getattr(self, name), get_args(known))
        for name, usual in (("epochs", 100), ("accumulate", 1), ("devices", 1)):
            check_least(f"trainer.{name}", getattr(self, name), 1, f"choose for example {usual}")
        self._check_averages()
        for name in ("patience", "head_first", "clip_norm", "save_every"):
            check_from_zero(f"trainer.{name}", getattr(self, name), "choose 0 to do without")

    def _check_averages(self) -> None:
        if not 0 <= self.average < 1:
            raise ArgumentError(
                "trainer.average",
                expected="a decay from 0 to below 1",
                got=repr(self.average),
                remedy="choose for example 0.99, or 0 to do without",
            )
        if self.average_last < 0 or (self.average_last and self.average):
            raise ArgumentError(
                "trainer.average_last",
                expected="a number from 0, without trainer.average beside it",
                got=f"{self.average_last!r} with trainer.average {self.average!r}",
                remedy="choose for example 10, or 0 to do without",
            )

    def check(self, metrics: Iterable[str], model: nn.Module | None = None) -> None:
        """Refuse what cannot be, before a run.

        Args:
            metrics: names that the task reports, without the split.
            model: what is going to be trained, where it is there already.

        Raises:
            ArgumentError: no such metric to monitor, no such device, or no head to train first.

        """
        if self.head_first and model is not None:
            names = [name for name, _ in model.named_parameters()]
            if not 0 < len(trunk_names(names)) < len(names):
                raise ArgumentError(
                    "trainer.head_first",
                    expected="a model with a head, such as those of texts, tags or molecules",
                    got=f"a {type(model).__name__}",
                    remedy="choose 0",
                )
        known = [f"{split}/{name}" for split in ("train", "val") for name in ("loss", *metrics)]
        if self.monitor not in known:
            raise unknown_name("trainer.monitor", self.monitor, known)
        if self.accelerator == "gpu" and not torch.accelerator.is_available():
            raise ArgumentError(
                "trainer.accelerator",
                expected="a device of this machine",
                got="gpu, and there is none",
                remedy="choose auto or cpu",
            )
        most, what = os.cpu_count() or 1, "processors"
        if self.accelerator != "cpu" and torch.accelerator.is_available():
            most, what = torch.accelerator.device_count(), "GPUs"
        started = rank_and_world_size()[1] > 1  # on any machines
        if self.devices > most and not started:
            raise ArgumentError(
                "trainer.devices",
                expected=f"at most {most}, the {what} of this machine",
                got=repr(self.devices),
                remedy="choose fewer" + ", or trainer.accelerator cpu" * (what == "GPUs"),
            )
