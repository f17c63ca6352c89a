"""Lightning callbacks: history, averages of weights, early stopping, checkpoints, progress."""

# ruff: noqa: ARG002 - Lightning passes more arguments to its hooks than they need
from __future__ import annotations

import math
import time
from copy import deepcopy
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, EarlyStopping, ProgressBar, WeightAveraging
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor, nn
from torchmetrics import Metric

from edgewise._utils.digits import rounded
from edgewise._utils.errors import ArgumentError, Interrupted, printable_line
from edgewise.app.train.backbone import trunk_names
from edgewise.app.train.folder import CHECKPOINT, Row, RunFolder
from edgewise.app.train.lightning_module import TrainingModule
from edgewise.app.train.process import (
    Request,
    all_gather,
    all_reduce,
    rank_and_world_size,
    restore_rng,
    rng_state,
)
from edgewise.app.train.recipe import TrainerSettings
from edgewise.layers import Cache

Weights = dict[str, Tensor]


class History(Callback):
    """Callback that keeps the metrics of each epoch and the weights of the best or last epoch. It
    must precede callbacks that average the weights for validation.
    """

    def __init__(self, settings: TrainerSettings) -> None:
        self.settings = settings
        self.rows: list[Row] = []
        self.kept_epoch = 0
        self.kept_weights: Weights = {}
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

    def state_dict(self) -> dict[str, Any]:
        kept = {"kept_epoch": self.kept_epoch, "kept_weights": self.kept_weights}
        return {"rows": self.rows, "times": self.times, **kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rows, self._earlier = state["rows"], state["times"]
        self.kept_epoch, self.kept_weights = state["kept_epoch"], state["kept_weights"]

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
        keeps_last = self.settings.keep == "last"
        if epoch == 1 or keeps_last or self._rank(epoch) < self._rank(self.kept_epoch):
            self.kept_epoch = epoch
            self.kept_weights = pl_module.copy_weights()

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
    6.1), which validation and the saved weights use.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.last: list[Weights] = []

    def state_dict(self) -> dict[str, Any]:
        return {"last": self.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last = state["last"]

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, TrainingModule)
        self.last = [*self.last, deepcopy(pl_module.model.state_dict())][-self.count :]
        for name, weight in pl_module.model.state_dict().items():
            if weight.is_floating_point():
                epochs = [epoch[name].to(weight.device) for epoch in self.last]
                weight.copy_(torch.stack(epochs).mean(0))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, TrainingModule)
        for name, weight in pl_module.model.state_dict().items():
            weight.copy_(self.last[-1][name])


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


INTERVAL_FACTOR = 20  # Minimum time between two checkpoints, in times for saving one.
DUE = 1  # Means: save, but do not stop. It must be less than the numbers of SIGINT and SIGTERM.


class ResumableCheckpoint(Checkpoint):
    """Callback that saves checkpoints; a run resumed from one gives bit-identical results. With
    loaders that have no ``state_dict``, it saves only at the end of each epoch.
    """

    def __init__(
        self, folder: RunFolder, save_every: float, request: Request, processes_of_batch: int = 1
    ) -> None:
        self.folder, self.save_every, self.request = folder, save_every, request
        self.processes_of_batch = processes_of_batch
        self._module: TrainingModule | None = None
        self._saved: list[dict[str, Any]] | None = None
        self._due = 0.0
        self._steps = 0

    @property
    def begun(self) -> bool:
        """True if training has started. If so, the checkpoint was restored without an error."""
        return self._module is not None

    def state_dict(self) -> dict[str, Any]:
        assert self._module is not None
        carried = self._module.carried.get("train")
        state = {
            "rng": rng_state(),
            "metrics": self._module.train_metrics.state_dict(),
            "carried": None if carried is None else carried.state_dict(self._module.model),
        }
        # Processes that divide the heads have the same state.
        return {"processes": all_gather(state)[:: self.processes_of_batch]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._saved = state["processes"]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, TrainingModule)
        self._steps = trainer.global_step
        self._due = time.monotonic() + self.save_every
        if trainer.ckpt_path and self._saved is None:
            raise KeyError("no state of this run's callbacks")
        # Restore the generators in the last hook, because other hooks may use random numbers.
        if self._saved is not None:
            self._restore(pl_module, self._saved)
            fetcher = trainer.fit_loop._data_fetcher
            if fetcher is not None and not hasattr(trainer.train_dataloader, "state_dict"):
                # Lightning has already shuffled, so shuffle again with the restored random state.
                iter(fetcher)
        self._module = pl_module

    def _restore(self, module: TrainingModule, processes: list[dict[str, Any]]) -> None:
        """Restore the state of this process; another number of processes may have saved it."""
        rank, count = (n // self.processes_of_batch for n in rank_and_world_size())
        states = processes[rank::count]  # Of several former processes, or of none.
        if len(processes) != count and any(state["carried"] is not None for state in processes):
            raise ArgumentError(
                "trainer.devices",
                expected=f"{len(processes)} processes, each of which continues a text",
                got=str(count),
                remedy="resume with as many processes as before",
            )
        if states:
            module.train_metrics.load_state_dict(states[0]["metrics"])
        else:  # The weights of the checkpoint came with the metrics of the first process.
            for metric in module.train_metrics.modules():
                if isinstance(metric, Metric):
                    metric.reset()
        for former in states[1:]:
            metrics = deepcopy(module.train_metrics)
            metrics.load_state_dict(former["metrics"])
            module.train_metrics.add_states(metrics)
        if states:
            if states[0]["carried"] is not None:
                carried = module.carried["train"] = Cache()
                carried.load_state_dict(module.model, states[0]["carried"])
            restore_rng(states[0]["rng"])

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # The condition is False while gradients are accumulated over several batches.
        stepped = trainer.global_step > self._steps
        self._steps = trainer.global_step
        # After the last batch, on_train_epoch_end saves.
        if stepped and not trainer.is_last_batch:
            self._save_or_stop(trainer, can_save=hasattr(trainer.train_dataloader, "state_dict"))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._save_or_stop(trainer)

    def _save_or_stop(self, trainer: Trainer, *, can_save: bool = True) -> None:
        started = time.monotonic()
        signal = self.request.signal or DUE * (can_save and started >= self._due)
        if trainer.world_size > 1:
            signal = all_reduce(trainer, signal, "max")
        if not signal:
            return
        if can_save and trainer.is_global_zero:
            self.folder.write(CHECKPOINT, trainer.save_checkpoint)
        elif can_save:
            # All processes must call save_checkpoint, although only rank 0 writes.
            trainer.save_checkpoint(self.folder.checkpoint)
        if signal > DUE:
            raise Interrupted(signal)
        now = time.monotonic()
        self._due = now + max(self.save_every, INTERVAL_FACTOR * (now - started))


BAR_EVERY = 0.1  # Seconds between two updates of the bar.
LINE_EVERY = 10.0  # Minimum seconds between two lines about finished epochs.
BATCH_LINE_EVERY = 60.0  # Seconds after which a line about an unfinished epoch is printed.


class ProgressDisplay(ProgressBar):
    """Print the finished epochs, the monitored metric and its best value to standard error."""

    def __init__(self, title: str, history: History) -> None:
        super().__init__()
        self.title, self.history = printable_line(title), history
        self.enabled = True
        self.console = Console(stderr=True)
        self._bar: Progress | None = None
        self._shown_at = 0.0
        self._shown_epochs = 0

    def disable(self) -> None:
        """Turn the display off. Lightning calls this in every process except that of rank 0."""
        self.enabled = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.enabled:
            return
        self._shown_at, self._shown_epochs = time.monotonic(), len(self.history.rows)
        if self.console.is_terminal:
            shown = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[text]}", markup=False),
            )
            self._bar = Progress(
                *shown,
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self.console,
                # A refresh thread would compete with training.
                auto_refresh=False,
            )
            self._bar.add_task(self.title, total=self.history.settings.epochs, text="")
            self._bar.start()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self.enabled:
            return
        waited = time.monotonic() - self._shown_at
        # The number of batches is infinite if it is unknown.
        batches, total = batch_idx + 1, trainer.num_training_batches
        if self._bar is not None:
            if waited >= BAR_EVERY:
                self._show(len(self.history.rows) + batches / total)
        elif len(self.history.rows) > self._shown_epochs and waited >= LINE_EVERY:
            self._show(len(self.history.rows))
        elif waited >= BATCH_LINE_EVERY and batches < total:
            batch_text = f", batch {batches}" + f"/{total}" * math.isfinite(total)
            self._show(len(self.history.rows), batch_text)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.enabled:
            self._show(len(self.history.rows))
        if self._bar is not None:
            self._bar.stop()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _show(self, epochs: float, batch: str = "") -> None:
        """Show the epoch, and the monitored metric of the last epoch, with its best value
        if the best epoch is kept; ``epochs`` includes the finished fraction of the current epoch.
        """
        history, settings = self.history, self.history.settings
        text = f"epoch {int(epochs)}/{settings.epochs}{batch}  "
        if history.rows:
            monitor = settings.monitor
            text += f"{monitor} {rounded(history.rows[-1][monitor])}"
            if settings.keep == "best":
                text += f" (best {rounded(history.rows[history.kept_epoch - 1][monitor])})"
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=epochs, text=text, refresh=True)
        else:
            line = f"{self.title}  {text}"
            self.console.print(line, highlight=False, soft_wrap=True, markup=False)
        self._shown_at, self._shown_epochs = time.monotonic(), len(history.rows)
