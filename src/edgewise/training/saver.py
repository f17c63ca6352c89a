"""Checkpoints: every few seconds, whole or not at all, and when the run is asked to stop."""

# ruff: noqa: ARG002 - Lightning passes its hooks more than they need
from __future__ import annotations

import time
from typing import Any

import lightning.pytorch as lightning

from edgewise.training.folder import RunFolder
from edgewise.training.interrupt import Interrupted, Request
from edgewise.training.module import Fitting
from edgewise.training.place import place
from edgewise.training.processes import gathered, most
from edgewise.training.rng import restore_rng, rng_state
from edgewise.training.steps import AfterStep

LEAST_SHARE = 20  # training takes at least this many times as long as saving
DUE = 1  # what a process wants where nobody has asked it to stop: less than any signal's number


class Saver(AfterStep):
    """Saves between two steps, so that a continued run repeats an unbroken one to the bit.

    Several processes save and stop at the same step; the first of them writes, for each, what is
    its own: the random numbers, and the metrics of the examples it has seen.
    """

    def __init__(self, folder: RunFolder, save_every: float, request: Request) -> None:
        self.folder, self.save_every, self.request = folder, save_every, request
        self._module: Fitting | None = None
        self._saved: dict[str, Any] | None = None
        self._due = 0.0

    @property
    def begun(self) -> bool:
        """Whether training has: all that a checkpoint holds has been restored."""
        return self._module is not None

    def state_dict(self) -> dict[str, Any]:
        assert self._module is not None
        meters = self._module.train_meters.state_dict()
        return {"processes": gathered({"rng": rng_state(), "meters": meters})}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._saved = state["processes"][place()[0]]

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        super().on_train_start(trainer, pl_module)
        assert isinstance(pl_module, Fitting)
        self._due = time.monotonic() + self.save_every
        if trainer.ckpt_path and self._saved is None:
            raise KeyError("nothing of this run's callbacks")
        if self._saved is not None:  # last, after all that might have drawn a number
            pl_module.train_meters.load_state_dict(self._saved["meters"])
            restore_rng(self._saved["rng"])
        self._module = pl_module

    def after_step(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        if not trainer.is_last_batch:  # the epoch's end follows, which is the better place
            self._save(trainer)

    def on_train_epoch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        self._save(trainer)

    def _save(self, trainer: lightning.Trainer) -> None:
        started = time.monotonic()
        wanted = most(trainer, self.request.signal or DUE * (started >= self._due))
        if not wanted:
            return
        if trainer.is_global_zero:
            self.folder.write(self.folder.checkpoint.name, trainer.save_checkpoint)
        else:
            trainer.save_checkpoint(self.folder.checkpoint)  # takes part, and writes nothing
        if wanted > DUE:
            raise Interrupted(wanted)
        now = time.monotonic()
        self._due = now + max(self.save_every, LEAST_SHARE * (now - started))
