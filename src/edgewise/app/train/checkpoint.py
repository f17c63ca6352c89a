"""Checkpoints from which a run is resumed exactly; they are saved at intervals and on Ctrl-C."""

# ruff: noqa: ARG002 - Lightning passes more arguments to its hooks than they need
from __future__ import annotations

import time
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from edgewise._utils.errors import Interrupted
from edgewise.app.train.distributed import all_gather, all_reduce, rank_and_world_size
from edgewise.app.train.folder import RunFolder
from edgewise.app.train.interrupt import Request
from edgewise.app.train.lightning_module import TrainingModule
from edgewise.app.train.rng import restore_rng, rng_state
from edgewise.layers import Cache

INTERVAL_FACTOR = 20  # Minimum time between two checkpoints, in times for saving one.
DUE = 1  # Means: save, but do not stop. It must be less than the numbers of SIGINT and SIGTERM.


class ResumableCheckpoint(Checkpoint):
    """Callback that saves checkpoints; a run resumed from one gives bit-identical results. With
    loaders that have no ``state_dict``, it saves only at the end of each epoch.
    """

    def __init__(self, folder: RunFolder, save_every: float, request: Request) -> None:
        self.folder, self.save_every, self.request = folder, save_every, request
        self._module: TrainingModule | None = None
        self._saved: dict[str, Any] | None = None
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
        return {"processes": all_gather(state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._saved = state["processes"][rank_and_world_size()[0]]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, TrainingModule)
        self._steps = trainer.global_step
        self._due = time.monotonic() + self.save_every
        if trainer.ckpt_path and self._saved is None:
            raise KeyError("no state of this run's callbacks")
        # Restore the generators in the last hook, because other hooks may use random numbers.
        if self._saved is not None:
            pl_module.train_metrics.load_state_dict(self._saved["metrics"])
            if self._saved["carried"] is not None:
                carried = pl_module.carried["train"] = Cache()
                carried.load_state_dict(pl_module.model, self._saved["carried"])
            restore_rng(self._saved["rng"])
            fetcher = trainer.fit_loop._data_fetcher
            if fetcher is not None and not hasattr(trainer.train_dataloader, "state_dict"):
                # Lightning has already shuffled, so shuffle again with the restored random state.
                iter(fetcher)
        self._module = pl_module

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
            self.folder.write(self.folder.checkpoint.name, trainer.save_checkpoint)
        elif can_save:
            # All processes must call save_checkpoint, although only rank 0 writes.
            trainer.save_checkpoint(self.folder.checkpoint)
        if signal > DUE:
            raise Interrupted(signal)
        now = time.monotonic()
        self._due = now + max(self.save_every, INTERVAL_FACTOR * (now - started))
