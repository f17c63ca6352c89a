"""Checkpoints to continue from exactly: by the clock, and when a run is asked to stop."""

# ruff: noqa: ARG002 - Lightning passes its hooks more than they need
from __future__ import annotations

import time
from typing import Any

import lightning.pytorch as lightning
from lightning.pytorch.callbacks import Checkpoint

from edgewise.layers import Cache
from edgewise.training.distributed import all_gather, all_reduce, rank_and_world_size
from edgewise.training.folder import RunFolder
from edgewise.training.interrupt import Interrupted, Request
from edgewise.training.lightning_module import TrainingModule
from edgewise.training.rng import restore_rng, rng_state

LEAST_SHARE = 20  # training takes at least this many times as long as saving
DUE = 1  # what a process wants where nobody has asked it to stop: less than any signal's number


class ResumableCheckpoint(Checkpoint):
    """Saves between two steps, so that a continued run repeats an unbroken one to the bit.

    Lightning's ModelCheckpoint does not save random numbers or the metrics of a begun epoch, so its
    runs continue with others; it stops at SIGTERM but not in order at Ctrl-C, and writes by way of
    the system's temporary folder, from where a file that is moved to another disk can be torn.

    Several processes save and stop at the same step; the first of them writes, for each, what is
    its own: the random numbers, the metrics of the examples it has seen, and what the model carries
    from batch to batch.

    Within an epoch only loaders that can tell and restore how far they are (``state_dict``, as
    ``edgewise.data.Loader`` and torchdata's StatefulDataLoader) can be continued exactly. With
    others, such as PyTorch's DataLoader, it saves when an epoch ends.
    """

    def __init__(self, folder: RunFolder, save_every: float, request: Request) -> None:
        self.folder, self.save_every, self.request = folder, save_every, request
        self._module: TrainingModule | None = None
        self._saved: dict[str, Any] | None = None
        self._due = 0.0
        self._steps = 0

    @property
    def begun(self) -> bool:
        """Whether training has: all that a checkpoint holds has been restored."""
        return self._module is not None

    def state_dict(self) -> dict[str, Any]:
        assert self._module is not None
        metrics = self._module.train_metrics.state_dict()
        carried = self._module.carried.get("train")
        own = {
            "rng": rng_state(),
            "metrics": metrics,
            "carried": None if carried is None else carried.state_dict(self._module.model),
        }
        return {"processes": all_gather(own)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._saved = state["processes"][rank_and_world_size()[0]]

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        assert isinstance(pl_module, TrainingModule)
        self._steps = trainer.global_step
        self._due = time.monotonic() + self.save_every
        if trainer.ckpt_path and self._saved is None:
            raise KeyError("nothing of this run's callbacks")
        if self._saved is not None:  # last, after all that might have drawn a number
            pl_module.train_metrics.load_state_dict(self._saved["metrics"])
            if self._saved["carried"] is not None:
                carried = pl_module.carried["train"] = Cache()
                carried.load_state_dict(pl_module.model, self._saved["carried"])
            restore_rng(self._saved["rng"])
            fetcher = trainer.fit_loop._data_fetcher
            if fetcher is not None and not _tells_how_far(trainer):
                iter(fetcher)  # Lightning did this before the numbers were restored
        self._module = pl_module

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        stepped = trainer.global_step > self._steps  # not between two batches of one step
        self._steps = trainer.global_step
        if stepped and not trainer.is_last_batch:  # the epoch's end follows, and is a better place
            self._save_or_stop(trainer, exactly=_tells_how_far(trainer))

    def on_train_epoch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        self._save_or_stop(trainer)

    def _save_or_stop(self, trainer: lightning.Trainer, *, exactly: bool = True) -> None:
        started = time.monotonic()
        due = DUE * (exactly and started >= self._due)
        wanted = all_reduce(trainer, self.request.signal or due, "max")
        if not wanted:
            return
        if exactly:
            self._save(trainer)
        if wanted > DUE:
            raise Interrupted(wanted)
        now = time.monotonic()
        self._due = now + max(self.save_every, LEAST_SHARE * (now - started))

    def _save(self, trainer: lightning.Trainer) -> None:
        if trainer.is_global_zero:
            self.folder.write(self.folder.checkpoint.name, trainer.save_checkpoint)
        else:
            trainer.save_checkpoint(self.folder.checkpoint)  # takes part, and writes nothing


def _tells_how_far(trainer: lightning.Trainer) -> bool:
    return hasattr(trainer.train_dataloader, "state_dict")
