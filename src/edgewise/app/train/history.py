"""Metrics of each epoch, weights of the best epoch, and training time."""

# ruff: noqa: ARG002 - Lightning passes more arguments to its hooks than they need
from __future__ import annotations

import math
import time
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.app.train.folder import Row
from edgewise.app.train.lightning_module import TrainingModule
from edgewise.app.train.settings import TrainerSettings


class History(Callback):
    """Callback that keeps the metrics of each epoch and the weights of the best epoch.

    Epochs are numbered from 1. Rows and weights are part of the checkpoint. Lightning's CSVLogger
    is not used, because it deletes earlier rows when a run is resumed. ModelCheckpoint is not used,
    because it writes a file after each improvement, which takes longer than an epoch on a small
    graph. Both can be passed to :func:`edgewise.app.train.fit` in addition.

    In the list of callbacks, ``History`` must precede a callback that replaces the weights by their
    average for validation.

    Args:
        settings: trainer settings, which name the metric that selects the best epoch.
    """

    def __init__(self, settings: TrainerSettings) -> None:
        self.settings = settings
        self.rows: list[Row] = []
        self.best_epoch = 0
        self.best_weights: dict[str, Tensor] = {}
        self._before = {"seconds": 0.0, "cpu_seconds": 0.0}
        self._started: dict[str, float] = {}

    @property
    def times(self) -> dict[str, float]:
        """Wall-clock ``seconds`` and ``cpu_seconds`` of training, also before a resumption."""
        now = _now() if self._started else {}
        return {
            name: round(before + now.get(name, 0) - self._started.get(name, 0), 3)
            for name, before in self._before.items()
        }

    @property
    def best(self) -> float:
        """Value of the monitored metric in the best epoch so far."""
        return self.rows[self.best_epoch - 1][self.settings.monitor] if self.rows else math.nan

    def state_dict(self) -> dict[str, Any]:
        best = {"best_epoch": self.best_epoch, "best_weights": self.best_weights}
        return {"rows": self.rows, "times": self.times, **best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rows, self._before = state["rows"], state["times"]
        self.best_epoch, self.best_weights = state["best_epoch"], state["best_weights"]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._started = _now()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, TrainingModule)
        measured, epoch = pl_module.measured, len(self.rows) + 1
        _check_finite(measured["train/loss"], epoch)
        lr = trainer.optimizers[0].param_groups[0]["lr"]
        self.rows.append({"epoch": epoch, **measured, "lr": lr, "seconds": self.times["seconds"]})
        if epoch == 1 or self._rank(epoch) < self._rank(self.best_epoch):
            self.best_epoch = epoch
            state = pl_module.model.state_dict()
            self.best_weights = {name: value.detach().clone() for name, value in state.items()}

    def _rank(self, epoch: int) -> tuple[float, float]:
        """Return a key that is smallest for the best epoch; ties go to the lowest loss."""
        row = self.rows[epoch - 1]
        value = row[self.settings.monitor]
        key = -value if self.settings.mode == "max" else value
        return _nan_last(key), _nan_last(row["val/loss"])


def _nan_last(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _now() -> dict[str, float]:
    return {"seconds": time.monotonic(), "cpu_seconds": time.process_time()}


def _check_finite(loss: float, epoch: int) -> None:
    if not math.isfinite(loss):
        raise ArgumentError(
            "optimizer.lr",
            expected="a training loss that stays finite",
            got=f"{loss} in epoch {epoch}",
            remedy="lower optimizer.lr, or set trainer.clip_norm",
        )
