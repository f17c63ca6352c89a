"""Progress display of training: a bar in a terminal, lines in a log file."""

# ruff: noqa: ARG002 - Lightning passes more arguments to its hooks than they need
from __future__ import annotations

import math
import time
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from edgewise._utils.digits import rounded
from edgewise._utils.errors import printable_line
from edgewise.app.train.callbacks import History

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
                self._update_bar(self._bar, len(self.history.rows) + batches / total)
        elif len(self.history.rows) > self._shown_epochs and waited >= LINE_EVERY:
            self._print_line("")
        elif waited >= BATCH_LINE_EVERY and batches < total:
            self._print_line(f", batch {batches}" + f"/{total}" * math.isfinite(total))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._bar is not None:
            self._update_bar(self._bar, len(self.history.rows))
            self._bar.stop()
        elif self.enabled:
            self._print_line("")

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _update_bar(self, bar: Progress, epochs: float) -> None:
        """Update the bar; ``epochs`` includes the finished fraction of the current epoch."""
        text = self._text(f"epoch {int(epochs)}")
        bar.update(bar.task_ids[0], completed=epochs, text=text, refresh=True)
        self._shown_at = time.monotonic()

    def _print_line(self, batch: str) -> None:
        self._shown_epochs = len(self.history.rows)
        text = f"{self.title}  {self._text(f'epoch {self._shown_epochs}', batch)}"
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)
        self._shown_at = time.monotonic()

    def _text(self, epoch: str, batch: str = "") -> str:
        """Return the epoch, and the monitored metric of the last epoch with its best value."""
        history, settings = self.history, self.history.settings
        text = f"{epoch}/{settings.epochs}{batch}  "
        if history.rows:
            monitor = settings.monitor
            text += f"{monitor} {rounded(history.rows[-1][monitor])} (best {rounded(history.best)})"
        return text
