"""What training says while it runs: a bar in a terminal, a line now and then elsewhere."""

# ruff: noqa: ARG002 - Lightning passes its hooks more than they need
from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import lightning.pytorch as lightning
from lightning.pytorch.callbacks import ProgressBar
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from edgewise.training.history import History

BAR_EVERY, LINE_EVERY = 0.1, 10.0  # seconds


class ProgressDisplay(ProgressBar):
    """Epochs done, the monitored metric and its best value, on the standard error.

    Lightning's bars are of the batches of one epoch. Where the output is a file, 200 epochs of one
    batch wrote 1001 lines with its TQDMProgressBar, and with RichProgressBar one, of the last.
    """

    def __init__(self, title: str, history: History) -> None:
        super().__init__()
        self.title, self.history = title, history
        self.enabled = True
        self.console = Console(stderr=True)
        self._bar: Progress | None = None
        self._due = 0.0

    def disable(self) -> None:
        """Show nothing: Lightning asks all processes for this but the first."""
        self.enabled = False

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        if not self.enabled:
            return
        self._due = time.monotonic() + (0 if self.console.is_terminal else LINE_EVERY)
        if self.console.is_terminal:
            shown = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}")
            self._bar = Progress(
                *shown,
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self.console,
                auto_refresh=False,  # no second thread beside the training
            )
            self._bar.add_task(self.title, total=self.history.settings.epochs, text="")
            self._bar.start()

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if self.enabled and time.monotonic() >= self._due:
            self._show(len(self.history.rows) + (batch_idx + 1) / int(trainer.num_training_batches))

    def on_train_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        if self.enabled:
            self._show(len(self.history.rows))
        self._close()

    def on_exception(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        exception: BaseException,
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _show(self, epochs: float) -> None:
        settings, text = self.history.settings, ""
        if self.history.rows:
            now = self.history.rows[-1][settings.monitor]
            text = f"{settings.monitor} {now:.4f} (best {self.history.best:.4f})"
        if self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0],
                completed=epochs,
                text=f"epoch {int(epochs)}/{settings.epochs}  {text}",
                refresh=True,
            )
            self._due = time.monotonic() + BAR_EVERY
        else:
            line = f"{self.title}  epoch {int(epochs)}/{settings.epochs}  {text}"
            self.console.print(line, highlight=False, soft_wrap=True)
            self._due = time.monotonic() + LINE_EVERY


def progress_display(
    title: str, history: History, callbacks: Iterable[lightning.Callback]
) -> list[ProgressBar]:
    """The display, unless there is a progress bar among these callbacks."""
    if any(isinstance(callback, ProgressBar) for callback in callbacks):
        return []
    return [ProgressDisplay(title, history)]
