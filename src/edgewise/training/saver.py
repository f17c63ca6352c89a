"""Checkpoints: every few seconds, whole or not at all, and when the run is asked to stop."""

# ruff: noqa: ARG002 - Lightning passes its hooks more than they need
from __future__ import annotations

import time
from typing import Any

import lightning.pytorch as lightning

from edgewise.training.folder import RunFolder
from edgewise.training.interrupt import Interrupted, Request
from edgewise.training.rng import restore_rng, rng_state
from edgewise.training.steps import AfterStep

LEAST_SHARE = 20  # training takes at least this many times as long as saving


class Saver(AfterStep):
    """Saves between two steps, so that a continued run repeats an unbroken one to the bit."""

    def __init__(self, folder: RunFolder, save_every: float, request: Request) -> None:
        self.folder, self.save_every, self.request = folder, save_every, request
        self._rng: dict[str, Any] | None = None
        self._due = 0.0

    def state_dict(self) -> dict[str, Any]:
        return rng_state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rng = state

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        super().on_train_start(trainer, pl_module)
        self._due = time.monotonic() + self.save_every
        if self._rng is not None:  # last, after all that might have drawn a number
            restore_rng(self._rng)

    def after_step(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        if not trainer.is_last_batch:  # the epoch's end follows, which is the better place
            self._save(trainer)

    def on_train_epoch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        self._save(trainer)

    def _save(self, trainer: lightning.Trainer) -> None:
        started = time.monotonic()
        if self.request.signal is None and started < self._due:
            return
        self.folder.write(self.folder.checkpoint.name, trainer.save_checkpoint)
        if self.request.signal is not None:
            raise Interrupted(self.request.signal)
        now = time.monotonic()
        self._due = now + max(self.save_every, LEAST_SHARE * (now - started))
