"""Recipes, settings of the optimizer and the training loop, and protocols of measurement."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import nn

from edgewise._utils.arguments import check_choice, check_range, check_seed
from edgewise._utils.errors import ArgumentError, unknown_name
from edgewise.app.files.targets import Target
from edgewise.app.train.backbone import trunk_names
from edgewise.app.train.process import rank_and_world_size
from edgewise.app.train.schedule import Schedule
from edgewise.app.train.splits import Data
from edgewise.app.train.task import Task

Name = Literal["adam", "adamw"]
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}

EMBEDDING = re.compile(r"trunk\.embedding\.")
LAYER = re.compile(r"trunk\.backbone\.(?:(?:stack\.)?layers\.|cell\.\w+_l)(\d+)")
"""Matches the number of the layer in a parameter name; group 1 is the number."""


@dataclass(frozen=True)
class OptimizerSettings:
    r"""Settings of PyTorch's Adam or AdamW.

    Attributes:
        name: ``adam`` (weight decay as an L2 penalty) or ``adamw`` (decoupled weight decay).
        lr: learning rate. At each step, it is multiplied by the factor of the schedule.
        beta2: decay rate of the running average of squared gradients.
        weight_decay: weight decay coefficient.
        decay_only: regular expression for the names of parameters with weight decay, such as
            ``^layers\.1\.`` for GCN's first layer. If empty, all parameters have weight decay.
        other_weight_decay: weight decay coefficient of the parameters that ``decay_only`` does not
            match.
        layer_decay: for text models, the learning rate of a layer divided by that of the layer
            above it (Howard and Ruder, 2018). The embedding is the lowest layer; the head has the
            full rate. With 1, all rates are equal.

    Example:
        >>> from edgewise.app.train import OptimizerSettings
        >>> settings = OptimizerSettings("adamw", lr=3e-4, weight_decay=0.01)
        >>> settings.lr, settings.beta2
        (0.0003, 0.999)
    """

    name: Name = "adamw"
    lr: float = 1e-3
    beta2: float = 0.999
    weight_decay: float = 0.0
    decay_only: str = ""
    other_weight_decay: float = 0.0
    layer_decay: float = 1.0

    def __post_init__(self) -> None:
        check_choice("optimizer.name", self.name, get_args(Name))
        for name in ("lr", "weight_decay", "other_weight_decay"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ArgumentError(
                    f"optimizer.{name}",
                    expected="a number of at least 0",
                    got=repr(getattr(self, name)),
                    remedy="choose for example 0.001",
                )
        remedy = "choose for example 0.999, or 0.99 for short runs"
        check_range("optimizer.beta2", self.beta2, remedy, least=0, below=1)
        remedy = "choose for example 0.9, or 1 for the same rate in all layers"
        check_range("optimizer.layer_decay", self.layer_decay, remedy, above=0, most=1)
        try:
            re.compile(self.decay_only)
        except re.error as error:
            raise ArgumentError(
                "optimizer.decay_only",
                expected="a regular expression",
                got=f"{self.decay_only!r} ({error})",
                remedy="match the start of parameter names, such as '^layers\\.1\\.'",
            ) from error

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Create the optimizer for the model's parameters.

        Raises:
            ArgumentError: ``decay_only`` matches no parameter, or ``layer_decay`` is set for a
                model without numbered layers.
        """
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        if trained and not any(re.search(self.decay_only, name) for name, _ in trained):
            raise ArgumentError(
                "optimizer.decay_only",
                expected="a regular expression that matches a parameter's name",
                got=repr(self.decay_only),
                remedy=f"choose among the names {', '.join(name for name, _ in trained)}",
            )
        names = [name for name, _ in trained]
        rates = dict.fromkeys(names, self.lr) if self.layer_decay == 1 else self._rates(names)
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for decays in (True, False):
            weight_decay = self.weight_decay if decays else self.other_weight_decay
            for name, parameter in trained:
                if bool(re.search(self.decay_only, name)) == decays:
                    groups.setdefault((weight_decay, rates[name]), []).append(parameter)
        make: Any = OPTIMIZERS[self.name]
        optimizer: torch.optim.Optimizer = make(
            [
                {"params": group, "weight_decay": weight_decay, "lr": rate}
                for (weight_decay, rate), group in groups.items()
            ]
            or [{"params": []}],
            lr=self.lr,
            betas=(0.9, self.beta2),
            # PyTorch's fused step takes weights of one kind of division.
            fused=len({getattr(parameter, "device_mesh", None) for _, parameter in trained}) <= 1,
            foreach=False,
        )
        return optimizer

    def _rates(self, names: list[str]) -> dict[str, float]:
        """Return the learning rate of each parameter, by its name, with layer decay."""
        heights = {name: _height(name) for name in names}
        top = 1 + max((height for height in heights.values() if height is not None), default=0)
        if top == 1:
            raise ArgumentError(
                "optimizer.layer_decay",
                expected="1, or a text model with numbered layers",
                got=f"{self.layer_decay} for a model without numbered layers",
                remedy="set optimizer.layer_decay to 1",
            )
        return {
            name: self.lr * self.layer_decay ** (top - (top if height is None else height))
            for name, height in heights.items()
        }


def _height(name: str) -> int | None:
    """Return a parameter's layer number from 1; 0 for the embedding, None outside text layers."""
    match = LAYER.match(name)
    return 1 + int(match[1]) if match else 0 if EMBEDDING.match(name) else None


Mode = Literal["max", "min"]
Keep = Literal["best", "last"]
Accelerator = Literal["auto", "cpu", "gpu"]
Precision = Literal["32", "bf16"]
Strategy = Literal["ddp", "fsdp"]


@dataclass(frozen=True)
class TrainerSettings:
    """Settings of the training loop.

    In a recipe, they are the field ``trainer``. On the command line, they are options such as
    ``--trainer.epochs``.

    Attributes:
        epochs: maximum number of epochs.
        min_steps: minimum number of optimizer steps. ``epochs`` is increased if there are fewer,
            for small training sets.
        patience: number of epochs without improvement after which training stops; 0 disables
            early stopping.
        keep: epoch whose weights are the result: the ``best`` by ``monitor``, or the ``last``, for
            small validation sets, whose metrics are too inaccurate to choose by.
        monitor: metric that selects the best epoch. Ties go to the epoch with the lowest
            ``val/loss``, then to the earliest. For data sets that describe their target columns,
            such as your own tables, ``val/loss`` with mode "min" replaces ``val/accuracy``.
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
        strategy: ``ddp`` gives each process all weights; ``fsdp`` (FSDP2) divides weights,
            gradients and optimizer states among the processes.
        tensor_parallel: with ``fsdp``, number of processes that have the same examples and divide
            the heads and hidden features of each Transformer layer, a divisor of ``devices``.
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
    min_steps: int = 0
    patience: int = 0
    keep: Keep = "best"
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
    strategy: Strategy = "ddp"
    tensor_parallel: int = 1
    save_every: float = 5.0

    def __post_init__(self) -> None:
        choices = {"keep": Keep, "mode": Mode, "accelerator": Accelerator, "precision": Precision}
        choices |= {"strategy": Strategy}
        for name, allowed in choices.items():
            check_choice(f"trainer.{name}", getattr(self, name), get_args(allowed))
        usual = {"epochs": 100, "accumulate_grad_batches": 1, "devices": 1, "tensor_parallel": 1}
        for name, value in usual.items():
            check_range(
                f"trainer.{name}", getattr(self, name), f"choose for example {value}", least=1
            )
        for name in ("min_steps", "patience", "freeze_backbone_epochs", "clip_norm"):
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

        if self.tensor_parallel > 1 and self.strategy == "ddp":
            raise ArgumentError(
                "trainer.tensor_parallel",
                expected="1 with trainer.strategy ddp",
                got=repr(self.tensor_parallel),
                remedy="set trainer.strategy to fsdp",
            )
        averages = self.ema_decay or self.average_last_epochs or self.freeze_backbone_epochs
        if averages and self.strategy == "fsdp":
            raise ArgumentError(
                "trainer.strategy",
                expected="ddp with ema_decay, average_last_epochs or freeze_backbone_epochs, which "
                "need all weights",
                got="fsdp",
                remedy="set trainer.strategy to ddp, or these fields to 0",
            )

    def with_min_steps(self, steps_per_epoch: int) -> TrainerSettings:
        """Return the settings with ``epochs`` increased to at least ``min_steps`` steps."""
        epochs = math.ceil(self.min_steps / max(steps_per_epoch, 1))
        return replace(self, epochs=max(self.epochs, epochs))

    @property
    def sharded(self) -> int:
        """Number of processes that divide the heads; 0 if each process has all weights."""
        return self.tensor_parallel if self.strategy == "fsdp" and self.devices > 1 else 0

    @property
    def replicas(self) -> int:
        """Number of processes, or groups of processes, with different examples."""
        return self.devices // max(self.sharded, 1)

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
        if self.devices % self.tensor_parallel:
            raise ArgumentError(
                "trainer.tensor_parallel",
                expected=f"a divisor of trainer.devices, {self.devices}",
                got=repr(self.tensor_parallel),
                remedy="change one of them",
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


@dataclass(frozen=True)
class Protocol:
    """Protocol by which the results of a recipe in ``docs/background/results.md`` are measured.

    Attributes:
        metrics: names of the reported metrics, such as ``test/accuracy``.
        reference: published result on the same data by the same protocol, and its source; "none"
            if there is none, with the published result that is not comparable and the difference.
        says: description of the data split and of how the epoch is chosen.
        seeds: number of random seeds; 0 trains once, with the seed of the recipe.
        folds: whether to cross-validate, with ``seeds`` trainings for each fold.
    """

    metrics: tuple[str, ...]
    reference: str
    says: str
    seeds: int = 0
    folds: bool = False

    @property
    def options(self) -> str:
        """Options of ``edgewise train`` with which a run follows the protocol."""
        return " ".join(["--folds"] * self.folds + [f"--seeds {self.seeds}"] * bool(self.seeds))


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a training run.

    Attributes:
        name: name for ``edgewise train``.
        summary: model, data and expected result on one line.
        model: function in ``models.MODELS`` with its arguments, except those that the data
            determine.
        task: loss, metrics and output head.
        seed: random seed for initialisation, dropout and shuffling.
        start: run folder or Hugging Face folder whose weights initialise the backbone; empty for
            random weights. On the command line and in ``recipe.json``, this field is called
            ``from``; the command line also takes the architecture from the folder.
        protocol: measurement protocol. It does not affect training and is not recorded.

    Example:
        >>> from dataclasses import replace
        >>> from edgewise.app.kinds import find
        >>> recipe = replace(find("digits"), name="digits-3", seed=3)
        >>> recipe.model.func.__name__, recipe.trainer.monitor
        ('vit', 'val/loss')
    """

    name: str
    summary: str
    model: partial[Any]
    data: Data
    task: Task
    optimizer: OptimizerSettings
    schedule: Schedule
    trainer: TrainerSettings
    seed: int = 0
    start: str = ""
    protocol: Protocol | None = None

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)

    def for_targets(self, targets: Sequence[Target], class_counts: Sequence[int] = ()) -> Recipe:
        """Return the recipe with a task that fits the loaded targets. For targets, ``val/loss``
        replaces ``val/accuracy`` as the monitored metric: numbers have no accuracy, and the mean
        accuracy of several labels hardly changes during training if most labels are rare.
        """
        task, trainer = self.task.with_targets(targets, class_counts), self.trainer
        if targets and trainer.monitor == "val/accuracy":
            trainer = replace(trainer, monitor="val/loss", mode="min")
        return replace(self, task=task, trainer=trainer)
