"""What happens after every step of the optimizer, which may take several batches."""

# ruff: noqa: ARG002 - Lightning passes its hooks more than they need
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import lightning.pytorch as lightning


class AfterStep(lightning.Callback, ABC):
    """Calls :meth:`after_step` where the weights have changed, and not between two batches that
    are accumulated.
    """

    _steps = 0

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        self._steps = trainer.global_step

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if trainer.global_step > self._steps:
            self._steps = trainer.global_step
            self.after_step(trainer, pl_module)

    @abstractmethod
    def after_step(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None: ...
