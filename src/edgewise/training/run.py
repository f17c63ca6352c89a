"""One run from first to last step, on Lightning's Trainer."""

from __future__ import annotations

import logging
import math
import signal
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import lightning.pytorch as lightning
import torch
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import nn

from edgewise.training.average import averages
from edgewise.training.curves import curves
from edgewise.training.folder import RunFolder
from edgewise.training.interfaces import Loader, Task
from edgewise.training.interrupt import Interrupted, interruptible
from edgewise.training.module import Fitting
from edgewise.training.optimizer import Optimizer
from edgewise.training.place import check_place, place
from edgewise.training.processes import spread
from edgewise.training.progress import ProgressDisplay
from edgewise.training.rng import seed_everything
from edgewise.training.saver import Saver
from edgewise.training.schedule import Schedule
from edgewise.training.settings import Precision, Trainer
from edgewise.training.watch import Watch

PRECISIONS: dict[Precision, Any] = {"32": "32-true", "bf16": "bf16-mixed"}
LEAN: dict[str, Any] = {
    "logger": False,  # the rows are kept in memory and written once
    "enable_checkpointing": False,  # Saver does it, by the clock and without tearing a file
    "enable_progress_bar": False,  # ProgressDisplay
    "enable_model_summary": False,
    "num_sanity_val_steps": 0,
}


def fit(
    model: nn.Module,
    task: Task,
    loaders: Mapping[str, Loader],
    folder: RunFolder,
    *,
    optimizer: Optimizer,
    schedule: Schedule,
    settings: Trainer,
    title: str,
) -> dict[str, float]:
    """See :func:`edgewise.training.fit`."""
    settings.check(task.metrics())
    check_place(settings)
    rank, world = place()
    if world > 1:
        _share(loaders, rank, world)
    steps = settings.epochs * math.ceil(len(loaders["train"]) / settings.accumulate)
    module = Fitting(model.train(), task, optimizer, schedule, steps=steps)
    watch = Watch(settings)
    with interruptible() as request, _quiet():
        callbacks: list[lightning.Callback] = [watch, *averages(settings)]
        if rank == 0:
            callbacks.insert(1, ProgressDisplay(title, watch))
        saver = Saver(folder, settings.save_every, request)
        callbacks.append(saver)
        trainer = lightning.Trainer(
            max_epochs=settings.epochs,
            gradient_clip_val=settings.clip_norm or None,
            accumulate_grad_batches=settings.accumulate,
            precision=PRECISIONS[settings.precision],
            accelerator=settings.accelerator,
            callbacks=callbacks,
            **LEAN,
            **spread(),
        )
        start = str(folder.checkpoint) if folder.checkpoint.is_file() else None
        if start:
            folder.check_checkpoint()
        with _as_interrupted(), _restoring(folder, saver) if start else nullcontext():
            trainer.fit(
                module, loaders["train"], loaders["val"], ckpt_path=start, weights_only=True
            )
    model.load_state_dict(watch.best_weights)
    metrics = evaluate(model, task, loaders, settings.accelerator)
    metrics["best_epoch"] = watch.best_epoch
    metrics["epochs"] = len(watch.rows)
    metrics["parameters"] = sum(p.numel() for p in model.parameters())
    metrics.update(watch.times)
    if rank == 0:
        _write(folder, task, watch, metrics)
    return metrics


def evaluate(
    model: nn.Module, task: Task, loaders: Mapping[str, Loader], accelerator: str
) -> dict[str, float]:
    """See :func:`edgewise.training.evaluate`."""
    module = Fitting(model, task)
    with _quiet(), _as_interrupted():
        trainer = lightning.Trainer(accelerator=accelerator, **LEAN, **spread())
        trainer.validate(module, loaders["val"], verbose=False)
        trainer.test(module, loaders["test"], verbose=False)
    return {**module.finish("test"), **module.finish("val")}


def _share(loaders: Mapping[str, Loader], rank: int, world: int) -> None:
    """Let each process serve its own part, and draw random numbers of its own."""
    for loader in loaders.values():
        loader.share(rank, world)
    if rank:  # the first draws what a single process would
        seed_everything((torch.initial_seed() + rank * 1_000_003) % 2**63)


def _write(folder: RunFolder, task: Task, watch: Watch, metrics: dict[str, float]) -> None:
    folder.write_log(watch.rows)
    folder.write_weights(watch.best_weights)
    folder.write_figure("curves.png", curves(watch.rows, watch.best_epoch))
    if task.notes():
        folder.write_json("notes.json", task.notes())
    folder.write_json("metrics.json", metrics)  # the last: where it is, the run is finished
    folder.checkpoint.unlink(missing_ok=True)


@contextmanager
def _as_interrupted() -> Iterator[None]:
    """Lightning turns a KeyboardInterrupt, or a SIGTERM between its steps, into an exit."""
    try:
        yield
    except SystemExit as error:
        ended = isinstance(error, SIGTERMException)
        raise Interrupted(signal.SIGTERM if ended else signal.SIGINT) from error


@contextmanager
def _restoring(folder: RunFolder, saver: Saver) -> Iterator[None]:
    """What goes wrong before training has begun is the checkpoint's fault."""
    try:
        yield
    except Exception:
        if saver.begun:
            raise
        with folder.restoring():
            raise


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's remarks on devices and tips, but with its warnings."""
    log = logging.getLogger("lightning.pytorch")
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            # Lightning 2.6 asks PyTorch 2.13 for a class that is going away.
            warnings.filterwarnings("ignore", ".*LeafSpec.* is deprecated", FutureWarning)
            warnings.filterwarnings("ignore", ".*find_unused_parameters=True was specified.*")
            yield
    finally:
        log.setLevel(level)
