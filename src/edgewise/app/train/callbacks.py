"""Lightning callbacks: history, averages of weights, a frozen backbone and early stopping."""

# ruff: noqa: ARG002 - Lightning passes more arguments to its hooks than they need
from __future__ import annotations

import math
import time
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, WeightAveraging
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.app.train.backbone import trunk_names
from edgewise.app.train.folder import Row
from edgewise.app.train.lightning_module import TrainingModule
from edgewise.app.train.settings import TrainerSettings

Weights = dict[str, Tensor]


class History(Callback):
    """Callback that keeps the metrics of each epoch and the weights of the best epoch. It must
    precede callbacks that average the weights for validation.
    """

    def __init__(self, settings: TrainerSettings) -> None:
        self.settings = settings
        self.rows: list[Row] = []
        self.best_epoch = 0
        self.best_weights: Weights = {}
        self._earlier = {"seconds": 0.0, "cpu_seconds": 0.0}
        self._started: tuple[float, float] | None = None

    @property
    def times(self) -> dict[str, float]:
        """Wall-clock ``seconds`` and ``cpu_seconds`` of training, also before a resumption."""
        if self._started is None:
            return self._earlier
        passed = time.monotonic() - self._started[0], time.process_time() - self._started[1]
        pairs = zip(self._earlier.items(), passed, strict=True)
        return {name: round(earlier + seconds, 3) for (name, earlier), seconds in pairs}

    @property
    def best(self) -> float:
        """Value of the monitored metric in the best epoch so far."""
        return self.rows[self.best_epoch - 1][self.settings.monitor]

    def state_dict(self) -> dict[str, Any]:
        best = {"best_epoch": self.best_epoch, "best_weights": self.best_weights}
        return {"rows": self.rows, "times": self.times, **best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rows, self._earlier = state["rows"], state["times"]
        self.best_epoch, self.best_weights = state["best_epoch"], state["best_weights"]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._started = time.monotonic(), time.process_time()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, TrainingModule)
        measured, epoch = pl_module.measured, len(self.rows) + 1
        if not math.isfinite(measured["train/loss"]):
            raise ArgumentError(
                "optimizer.lr",
                expected="a training loss that stays finite",
                got=f"{measured['train/loss']} in epoch {epoch}",
                remedy="lower optimizer.lr, or set trainer.clip_norm",
            )
        lr = trainer.optimizers[0].param_groups[0]["lr"]
        self.rows.append({"epoch": epoch, **measured, "lr": lr, "seconds": self.times["seconds"]})
        if epoch == 1 or self._rank(epoch) < self._rank(self.best_epoch):
            self.best_epoch = epoch
            self.best_weights = _copy(_weights(pl_module))

    def _rank(self, epoch: int) -> list[float]:
        """Return a key that is smallest for the best epoch; ties go to the lowest loss."""
        row = self.rows[epoch - 1]
        sign = -1 if self.settings.mode == "max" else 1
        keys = sign * row[self.settings.monitor], row["val/loss"]
        return [math.inf if math.isnan(key) else key for key in keys]


class MovingAverage(WeightAveraging):
    r"""Moving average :math:`\bar w \leftarrow d\,\bar w + (1 - d)w` of the weights; it begins with
    their plain mean (Polyak and Juditsky, 1992).
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        super().__init__(multi_avg_fn=self.add)

    @torch.no_grad()
    def add(self, average: list[Tensor], weights: list[Tensor], steps: Tensor) -> None:
        """Add the new weights to their average over ``steps`` earlier steps, in place."""
        fraction = max(1 / (int(steps) + 1), 1 - self.decay)
        for mean, weight in zip(average, weights, strict=True):
            if mean.is_floating_point():
                mean.lerp_(weight, fraction)
            else:  # Integer counters are copied, not averaged.
                mean.copy_(weight)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the average in place of the weights, until :class:`History` has copied it."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_validation_epoch_end(trainer, pl_module)


class LastAverage(Callback):
    """Mean of the weights at the ends of the last ``count`` epochs (Vaswani et al., 2017, section
    6.1), which validation and the saved best weights use.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.last: list[Weights] = []

    def state_dict(self) -> dict[str, Any]:
        return {"last": self.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last = state["last"]

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        weights = _weights(pl_module)
        self.last = [*self.last, _copy(weights)][-self.count :]
        for name, weight in weights.items():
            if weight.is_floating_point():
                epochs = [epoch[name].to(weight.device) for epoch in self.last]
                weight.copy_(torch.stack(epochs).mean(0))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for name, weight in _weights(pl_module).items():
            weight.copy_(self.last[-1][name])


def _weights(module: LightningModule) -> Weights:
    """Return the model's weights and buffers by name; changing them changes the model."""
    assert isinstance(module, TrainingModule)
    return module.model.state_dict()


def _copy(weights: Weights) -> Weights:
    return {name: weight.detach().clone() for name, weight in weights.items()}


class HeadFirst(Callback):
    """Callback that freezes the backbone of a model in the first epochs."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self._trained: list[nn.Parameter] = []

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, TrainingModule)
        parameters = dict(pl_module.model.named_parameters())
        trunk = trunk_names(parameters)
        self._trained = [parameters[name] for name in trunk if parameters[name].requires_grad]

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        frozen = trainer.current_epoch < self.epochs
        for parameter in self._trained:
            parameter.requires_grad_(not frozen)
            if frozen:
                parameter.grad = None

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for parameter in self._trained:
            parameter.requires_grad_(True)


class ResumableEarlyStopping(EarlyStopping):
    """Lightning's EarlyStopping, whose decision to stop survives a resumed run."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.should_stop = trainer.should_stop or self.wait_count >= self.patience


def callbacks_of(settings: TrainerSettings) -> list[Callback]:
    """Return the callbacks of weight averaging, early stopping and freezing that are enabled."""
    callbacks: list[Callback] = []
    if settings.ema_decay:
        callbacks.append(MovingAverage(settings.ema_decay))
    if settings.average_last_epochs:
        callbacks.append(LastAverage(settings.average_last_epochs))
    if settings.patience:
        # NaN counts as no improvement; History ends a run with a NaN loss.
        stopping = ResumableEarlyStopping(
            settings.monitor, patience=settings.patience, mode=settings.mode, check_finite=False
        )
        callbacks.append(stopping)
    if settings.freeze_backbone_epochs:
        callbacks.append(HeadFirst(settings.freeze_backbone_epochs))
    return callbacks
