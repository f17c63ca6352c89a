"""Early stopping for runs that are resumed."""

from __future__ import annotations

import lightning.pytorch as lightning
from lightning.pytorch.callbacks import EarlyStopping

from edgewise.training.settings import TrainerSettings


class ResumableEarlyStopping(EarlyStopping):
    """Lightning's EarlyStopping, for a run that is resumed after it decided to stop.

    A checkpoint does not contain the Trainer's ``should_stop``, so with Lightning's own class such
    a run trains one epoch more than an uninterrupted run.
    """

    def __init__(self, settings: TrainerSettings) -> None:
        super().__init__(
            settings.monitor,
            patience=settings.patience,
            mode=settings.mode,
            check_finite=False,  # NaN counts as no improvement; History ends a run with a NaN loss.
        )

    def on_train_start(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,  # noqa: ARG002 - part of the hook
    ) -> None:
        trainer.should_stop = trainer.should_stop or self.wait_count >= self.patience


def early_stopping(settings: TrainerSettings) -> list[EarlyStopping]:
    """Return the early stopping callback, or nothing if ``patience`` is 0."""
    return [ResumableEarlyStopping(settings)] if settings.patience else []
