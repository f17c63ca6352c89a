"""Early stopping: Lightning's, for runs that may be killed."""

from __future__ import annotations

import lightning.pytorch as lightning
from lightning.pytorch.callbacks import EarlyStopping

from edgewise.training.settings import TrainerSettings


class ResumableEarlyStopping(EarlyStopping):
    """Lightning's EarlyStopping, which stops again where a run was killed after it had stopped.

    The Trainer's ``should_stop`` is in no checkpoint: continued from the last epoch's, Lightning's
    own trains one epoch more than an unbroken run.
    """

    def __init__(self, settings: TrainerSettings) -> None:
        super().__init__(
            settings.monitor,
            patience=settings.patience,
            mode="max" if settings.better == "higher" else "min",
            check_finite=False,  # a metric that is NaN is worse than any; a loss ends the run
        )

    def on_train_start(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,  # noqa: ARG002 - Lightning passes it
    ) -> None:
        trainer.should_stop = trainer.should_stop or self.wait_count >= self.patience


def early_stopping(settings: TrainerSettings) -> list[EarlyStopping]:
    """Early stopping as these settings ask for it, if they do."""
    return [ResumableEarlyStopping(settings)] if settings.patience else []
