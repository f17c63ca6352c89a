"""Fit a model and evaluate it, with Lightning's Trainer, which is imported when they are called."""

from __future__ import annotations

import logging
import math
import signal
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from edgewise.base_task import Task
from edgewise.errors import require
from edgewise.training.batch_forms import as_loaders, explain_loader_errors
from edgewise.training.curves import curves
from edgewise.training.distributed import check_world_size, rank_and_world_size, trainer_arguments
from edgewise.training.folder import CURVES, METRICS, NOTES, RunFolder
from edgewise.training.interrupt import Interrupted, interruptible
from edgewise.training.optimizer import OptimizerSettings
from edgewise.training.rng import seed_everything
from edgewise.training.schedule import Schedule
from edgewise.training.settings import Precision, TrainerSettings

if TYPE_CHECKING:
    import lightning.pytorch as lightning
    from lightning.pytorch.loggers import Logger

    from edgewise.training.checkpoint import ResumableCheckpoint
    from edgewise.training.history import History

Loaders = Mapping[str, Any]
PRECISIONS: dict[Precision, Any] = {"32": "32-true", "bf16": "bf16-mixed"}


def fit(
    model: nn.Module,
    task: Task,
    loaders: Loaders,
    folder: RunFolder,
    *,
    optimizer: OptimizerSettings,
    trainer: TrainerSettings,
    schedule: Schedule | None = None,
    logger: Logger | Iterable[Logger] | None = None,
    callbacks: Sequence[lightning.Callback] = (),
    title: str = "training",
) -> dict[str, float]:
    """Train on Lightning's Trainer, restore the best epoch's weights, test, and write the folder.

    It continues from ``folder.checkpoint`` where that is, to the numbers of an unbroken run::

        x, y = torch.randn(200, 4), torch.arange(200) % 2
        examples = DataLoader(TensorDataset(x, y), batch_size=20)
        training.fit(
            nn.Linear(4, 2),
            tasks.Classification(),
            {"train": examples, "val": examples, "test": examples},
            training.RunFolder(Path("runs/mine")),
            optimizer=training.OptimizerSettings(lr=0.01),
            trainer=training.TrainerSettings(epochs=5),
            logger=CSVLogger("logs"),
            callbacks=[LearningRateMonitor()],
        )

    Args:
        model: called ``model(*batch.inputs, **batch.keywords)``; holds the best weights afterwards.
        task: loss and metrics.
        loaders: ``train``, ``val`` and ``test``, each a list of batches, or a loader that has a
            length, as PyTorch's DataLoader: of :class:`edgewise.data.Batch`, of tuples ``(input,
            ..., target)``, of dicts of tensors with ``labels``, such as those of a Hugging Face
            data set in torch's format, or of the graphs of PyG's DataLoader.
        folder: gets ``log.csv``, ``model.safetensors``, ``curves.png`` and, as the last,
            ``metrics.json``, where ``null`` is what was NaN or infinite.
        optimizer: which one, and its numbers.
        trainer: how long, what to monitor, when to stop.
        schedule: the factor on the learning rate; a constant one if left out.
        logger: Lightning's Trainer gets it, and with it the metrics of every epoch and of the test.
        callbacks: Lightning's Trainer gets them while it trains, before Edgewise's own. A progress
            bar among them is shown in place of ours.
        title: what the progress display says.

    Returns:
        The metrics of ``metrics.json``.

    Raises:
        RunExistsError: the folder holds a run that has finished.
        ArgumentError: no such metric to monitor, examples that make no batch, batches of another
            kind or that the model cannot take, or the loss became NaN or infinite.
        Interrupted: Ctrl-C or SIGTERM; a checkpoint has been left.
        MissingExtraError: Lightning is not installed.

    """
    _require_lightning()
    import lightning.pytorch as lightning

    from edgewise.training.checkpoint import ResumableCheckpoint
    from edgewise.training.early_stopping import early_stopping
    from edgewise.training.head_first import head_first
    from edgewise.training.history import History
    from edgewise.training.lightning_module import TrainingModule
    from edgewise.training.progress import progress_display
    from edgewise.training.weight_averaging import weight_averaging

    folder.refuse_overwriting()
    trainer.check(task.metrics(), model)
    check_world_size(trainer)
    rank, world_size = rank_and_world_size()
    loaders = as_loaders(loaders, "train", "val", "test")
    if world_size > 1:
        _share(loaders, rank, world_size)
    batches = len(loaders["train"])
    if not hasattr(loaders["train"], "share"):  # Lightning is going to
        batches = math.ceil(batches / world_size)
    steps = trainer.epochs * math.ceil(batches / trainer.accumulate)
    folder.make()
    module = TrainingModule(model.train(), task, optimizer, schedule, steps=steps)
    history = History(trainer)
    with interruptible() as request, _quiet():
        checkpoint = ResumableCheckpoint(folder, trainer.save_every, request)
        lightning_trainer = lightning.Trainer(
            max_epochs=trainer.epochs,
            gradient_clip_val=trainer.clip_norm or None,
            accumulate_grad_batches=trainer.accumulate,
            precision=PRECISIONS[trainer.precision],
            accelerator=trainer.accelerator,
            logger=logger or False,
            callbacks=[
                *callbacks,
                history,
                *weight_averaging(trainer),
                *early_stopping(trainer),
                *head_first(trainer),
                *progress_display(title, history, callbacks),
                checkpoint,
            ],
            enable_model_summary=False,
            num_sanity_val_steps=0,
            **trainer_arguments(),
        )
        start = str(folder.checkpoint) if folder.checkpoint.is_file() else None
        if start:
            folder.check_checkpoint()
        restoring = _restoring(folder, checkpoint) if start else nullcontext()
        with _as_interrupted(), explain_loader_errors(), restoring:
            lightning_trainer.fit(
                module, loaders["train"], loaders["val"], ckpt_path=start, weights_only=True
            )
    model.load_state_dict(history.best_weights)
    metrics = evaluate(model, task, loaders, accelerator=trainer.accelerator, logger=logger)
    metrics["best_epoch"] = history.best_epoch
    metrics["epochs"] = len(history.rows)
    metrics["parameters"] = sum(p.numel() for p in model.parameters())
    metrics.update(history.times)
    if rank == 0:
        _write(folder, task, history, metrics)
    return metrics


def evaluate(
    model: nn.Module,
    task: Task,
    loaders: Loaders,
    *,
    accelerator: str = "auto",
    logger: Logger | Iterable[Logger] | None = None,
) -> dict[str, float]:
    """Loss and metrics on ``val`` and ``test``, such as ``{"test/accuracy": 0.83, ...}``.

    Raises:
        ArgumentError: one of the loaders is missing, or its batches are of another kind.
        MissingExtraError: Lightning is not installed.

    """
    _require_lightning()
    import lightning.pytorch as lightning

    from edgewise.training.lightning_module import TrainingModule

    loaders = as_loaders(loaders, "val", "test")
    module = TrainingModule(model, task)
    with _quiet(), _as_interrupted(), explain_loader_errors():
        trainer = lightning.Trainer(
            accelerator=accelerator,
            logger=logger or False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            **trainer_arguments(),
        )
        trainer.validate(module, loaders["val"], verbose=False)
        val = module.measured
        trainer.test(module, loaders["test"], verbose=False)
    return {**module.measured, **val}


def _require_lightning() -> None:
    for package in ("lightning", "torchmetrics", "safetensors", "rich"):
        require(package, extra="train", purpose="training")


def _share(loaders: Loaders, rank: int, world_size: int) -> None:
    """Let each process serve its own part, and draw random numbers of its own."""
    for loader in loaders.values():
        if hasattr(loader, "share"):  # Lightning shares PyTorch's own
            loader.share(rank, world_size)
    if rank:  # the first draws what a single process would
        seed_everything((torch.initial_seed() + rank * 1_000_003) % 2**63)


def _write(folder: RunFolder, task: Task, history: History, metrics: dict[str, float]) -> None:
    folder.write_log(history.rows)
    folder.write_weights(history.best_weights)
    folder.write_figure(CURVES, curves(history.rows, history.best_epoch))
    if task.notes():
        folder.write_json(NOTES, task.notes())
    folder.write_json(METRICS, metrics)  # the last: where it is, the run is finished
    folder.checkpoint.unlink(missing_ok=True)


@contextmanager
def _as_interrupted() -> Iterator[None]:
    """Lightning turns a KeyboardInterrupt, or a SIGTERM between its steps, into an exit."""
    from lightning.pytorch.utilities.exceptions import SIGTERMException

    try:
        yield
    except SystemExit as error:
        ended = isinstance(error, SIGTERMException)
        raise Interrupted(signal.SIGTERM if ended else signal.SIGINT) from error


@contextmanager
def _restoring(folder: RunFolder, checkpoint: ResumableCheckpoint) -> Iterator[None]:
    """What goes wrong before training has begun is the checkpoint's fault."""
    try:
        yield
    except Exception:
        if checkpoint.begun:
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
            for what in (
                ".*LeafSpec.* is deprecated",  # Lightning 2.6 asks PyTorch 2.13 for it
                ".*find_unused_parameters=True was specified.*",
                ".*does not have many workers.*",  # the user's own loader, who may have a reason
                ".*smaller than the logging interval.*",  # metrics are reported each epoch
            ):
                warnings.filterwarnings("ignore", what)
            yield
    finally:
        log.setLevel(level)
