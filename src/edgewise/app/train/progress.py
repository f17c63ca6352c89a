"""Progress display of training: a bar in a terminal, lines in a log file."""

# ruff: noqa: ARG002 - Lightning passes more arguments to its hooks than they need
from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from edgewise._utils.digits import rounded
from edgewise._utils.errors import printable_line
from edgewise.app.train.history import History

BAR_EVERY = 0.1  # Seconds between two updates of the bar.
LINE_EVERY = 10.0  # Minimum seconds between two lines about finished epochs.
BATCH_LINE_EVERY = 60.0  # Seconds after which a line about an unfinished epoch is printed.


class ProgressDisplay(ProgressBar):
    """Print the finished epochs, the monitored metric and its best value to standard error.

    Lightning's progress bars are not used, because they count the batches of each epoch. In a log
    file, 200 epochs of one batch give 1001 lines with TQDMProgressBar, and only the last line with
    RichProgressBar.

    Args:
        title: text at the beginning of the bar and of each line.
        history: callback that collects the metrics.
    """

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
        elif self.enabled:
            self._print_line("")
        self._close()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _update_bar(self, bar: Progress, epochs: float) -> None:
        """Update the bar; ``epochs`` includes the finished fraction of the current epoch."""
        text = f"epoch {int(epochs)}/{self.history.settings.epochs}  {self._metric()}"
        bar.update(bar.task_ids[0], completed=epochs, text=text, refresh=True)
        self._shown_at = time.monotonic()

    def _print_line(self, batch: str) -> None:
        epochs = len(self.history.rows)
        text = f"epoch {epochs}/{self.history.settings.epochs}{batch}  {self._metric()}"
        self.console.print(f"{self.title}  {text}", highlight=False, soft_wrap=True, markup=False)
        self._shown_at, self._shown_epochs = time.monotonic(), epochs

    def _metric(self) -> str:
        """Return a text with the monitored metric of the last epoch and its best value."""
        if not self.history.rows:
            return ""
        monitor = self.history.settings.monitor
        last = rounded(self.history.rows[-1][monitor])
        return f"{monitor} {last} (best {rounded(self.history.best)})"


def progress_display(
    title: str, history: History, callbacks: Iterable[Callback]
) -> list[ProgressBar]:
    """Return a list with the progress display; empty if ``callbacks`` has a progress bar."""
    if any(isinstance(callback, ProgressBar) for callback in callbacks):
        return []
    return [ProgressDisplay(title, history)]
