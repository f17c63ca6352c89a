"""Training and evaluation of models with Lightning's Trainer, which is imported on first use."""

from __future__ import annotations

import logging
import math
import signal
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError, Interrupted, require
from edgewise.app.train.batches import as_loader, raise_explained
from edgewise.app.train.folder import (
    CHECKPOINT,
    CURVES,
    METRICS,
    NOTES,
    TEST_EXAMPLES,
    WEIGHTS,
    Row,
    RunFolder,
)
from edgewise.app.train.process import (
    device_arguments,
    interruptible,
    rank_and_world_size,
    seed_everything,
)
from edgewise.app.train.recipe import OptimizerSettings, Precision, TrainerSettings
from edgewise.app.train.schedule import Schedule
from edgewise.app.train.task import Task
from edgewise.distributed.exchange import communicating

if TYPE_CHECKING:
    import lightning.pytorch as lightning
    from lightning.pytorch.loggers import Logger
    from matplotlib.figure import Figure

    from edgewise.app.train.lightning_module import TrainingModule

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
    """Train a model, restore the weights of the best epoch, or of the last with
    ``trainer.keep="last"``, test it, and write the run folder.

    If ``folder.checkpoint`` exists, training resumes from it, with the same results as an
    uninterrupted run.

    Args:
        model: called as ``model(*batch.inputs, **batch.keywords)``. After training, it has the
            weights of the kept epoch.
        task: loss and metrics.
        loaders: a list of batches, or a loader with a length such as PyTorch's DataLoader, for each
            of ``train``, ``val`` and ``test``. Batches are :class:`~edgewise.app.train.Batch`,
            tuples ``(input, ..., target)``, dicts of tensors with ``labels`` (such as a Hugging
            Face data set in torch format), or the graphs of PyG's DataLoader.
        folder: run folder, in which ``log.csv``, ``model.safetensors``, ``curves.png``,
            ``notes.json`` (if the task has notes), ``test_examples.safetensors`` (if it has
            :meth:`~edgewise.app.train.Task.per_example_metrics`, in one process) and, last,
            ``metrics.json`` are written. In JSON files, ``null`` stands for NaN and infinity.
        optimizer: optimizer settings.
        trainer: trainer settings.
        schedule: learning-rate schedule. Constant by default.
        logger: Lightning loggers, which receive the metrics of each epoch and of the test.
        callbacks: Lightning callbacks, which run before those of Edgewise. A progress bar among
            them replaces the progress display of Edgewise.
        title: title of the progress display.

    Returns:
        The metrics in ``metrics.json``.

    Raises:
        RunExistsError: the folder contains a finished run.
        ArgumentError: the monitored metric does not exist, the examples or batches have a wrong
            form, the model cannot process them, or the loss became NaN or infinite.
        Interrupted: on Ctrl-C or SIGTERM, after a checkpoint has been saved.
        MissingExtraError: Lightning is not installed.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from edgewise.app.train import Classification, OptimizerSettings, RunFolder
        >>> from edgewise.app.train import TrainerSettings, fit
        >>> x, y = torch.randn(200, 4), torch.arange(200) % 2
        >>> examples = DataLoader(TensorDataset(x, y), batch_size=20)
        >>> metrics = fit(
        ...     torch.nn.Linear(4, 2),
        ...     Classification(),
        ...     {"train": examples, "val": examples, "test": examples},
        ...     RunFolder(Path(mkdtemp())),
        ...     optimizer=OptimizerSettings(lr=0.01),
        ...     trainer=TrainerSettings(epochs=2),
        ... )
        >>> sorted(name for name in metrics if name.startswith("test"))
        ['test/accuracy', 'test/loss']
    """
    _require_lightning()
    import lightning.pytorch as lightning
    from lightning.pytorch.callbacks import ProgressBar

    from edgewise.app.train.callbacks import (
        History,
        ProgressDisplay,
        ResumableCheckpoint,
        callbacks_of,
    )

    folder.refuse_overwriting()
    trainer.check(task.metrics(), model)
    rank, world_size = rank_and_world_size()
    if trainer.devices != world_size:
        raise ArgumentError(
            "trainer.devices",
            expected=f"the number of running processes, {world_size}",
            got=repr(trainer.devices),
            remedy=f"start the script with `torchrun --nproc-per-node {trainer.devices}`; "
            "runs.train and `edgewise train` start the processes themselves",
        )
    loaders = {split: as_loader(split, loaders) for split in ("train", "val", "test")}
    processes_of_batch = max(trainer.sharded, 1)
    if world_size > 1:
        _split_among_processes(loaders, rank // processes_of_batch, trainer.replicas)
    steps_per_epoch = _steps_per_epoch(loaders["train"], trainer)
    trainer = trainer.with_min_steps(steps_per_epoch)
    steps = trainer.epochs * steps_per_epoch
    folder.make()
    module = _training_module(model.train(), trainer, task, optimizer, schedule, steps)
    history = History(trainer)
    has_bar = any(isinstance(callback, ProgressBar) for callback in callbacks)
    with interruptible() as request, _running():
        checkpoint = ResumableCheckpoint(folder, trainer.save_every, request, processes_of_batch)
        lightning_trainer = lightning.Trainer(
            max_epochs=trainer.epochs,
            gradient_clip_val=trainer.clip_norm or None,
            accumulate_grad_batches=trainer.accumulate_grad_batches,
            precision=PRECISIONS[trainer.precision],
            logger=logger or False,
            callbacks=[
                *callbacks,
                history,
                *callbacks_of(trainer),
                *([] if has_bar else [ProgressDisplay(title, history)]),
                checkpoint,
            ],
            enable_model_summary=False,
            num_sanity_val_steps=0,
            **device_arguments(trainer.accelerator, sharded=trainer.sharded),
        )
        start = None
        if folder.has(CHECKPOINT):
            folder.check_checkpoint()
            start = str(folder.path / CHECKPOINT)
        restoring = folder.restoring(lambda: checkpoint.begun) if start else nullcontext()
        with restoring:
            lightning_trainer.fit(
                module, loaders["train"], loaders["val"], ckpt_path=start, weights_only=True
            )
    model.load_state_dict(history.kept_weights)
    metrics, examples = evaluate_with_examples(model, task, loaders, trainer.accelerator, logger)
    metrics["kept_epoch"] = history.kept_epoch
    metrics["epochs"] = len(history.rows)
    metrics["parameters"] = sum(p.numel() for p in model.parameters())
    metrics.update(history.times)
    if rank == 0:
        if examples:
            folder.write_tensors(TEST_EXAMPLES, examples)
        folder.write_log(history.rows)
        folder.write_tensors(WEIGHTS, history.kept_weights)
        folder.write_figure(CURVES, curves(history.rows, history.kept_epoch))
        if task.notes():
            folder.write_json(NOTES, task.notes())
        # The metrics are written last, because this file marks the run as finished.
        folder.write_json(METRICS, metrics)
        (folder.path / CHECKPOINT).unlink(missing_ok=True)
    return metrics


def evaluate(
    model: nn.Module,
    task: Task,
    loaders: Loaders,
    *,
    accelerator: str = "auto",
    logger: Logger | Iterable[Logger] | None = None,
) -> dict[str, float]:
    """Return loss and metrics on ``val`` and ``test``, such as ``{"test/accuracy": 0.83, ...}``.

    Raises:
        ArgumentError: a loader is missing, or its batches have a wrong form.
        MissingExtraError: Lightning is not installed.
    """
    return evaluate_with_examples(model, task, loaders, accelerator, logger)[0]


def evaluate_with_examples(
    model: nn.Module,
    task: Task,
    loaders: Loaders,
    accelerator: str,
    logger: Logger | Iterable[Logger] | None = None,
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Return the metrics of :func:`evaluate`, and those of each test example in one process."""
    _require_lightning()
    import lightning.pytorch as lightning

    from edgewise.app.train.lightning_module import TrainingModule

    loaders = {split: as_loader(split, loaders) for split in ("val", "test")}
    module = TrainingModule(model, task)
    with _running():
        trainer = lightning.Trainer(
            logger=logger or False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            **device_arguments(accelerator),
        )
        trainer.validate(module, loaders["val"], verbose=False)
        val = module.measured
        trainer.test(module, loaders["test"], verbose=False)
    examples = module.test_metrics.per_example if trainer.world_size == 1 else {}
    return {**module.measured, **val}, examples


def _require_lightning() -> None:
    for package in ("lightning", "torchmetrics", "safetensors", "rich"):
        require(package, extra="train", purpose="training")


def _training_module(model: nn.Module, trainer: TrainerSettings, *settings: Any) -> TrainingModule:
    """Return the module that trains the model, or a copy whose weights processes divide."""
    if trainer.sharded:
        from edgewise.app.train.sharded_module import ShardedTrainingModule

        # Divided weights stay divided, so the whole model is another.
        return ShardedTrainingModule(deepcopy(model), *settings)
    from edgewise.app.train.lightning_module import TrainingModule

    return TrainingModule(model, *settings)


def _steps_per_epoch(loader: Any, trainer: TrainerSettings) -> int:
    batches = len(loader)
    if not hasattr(loader, "share"):  # Lightning splits other loaders.
        batches = math.ceil(batches / trainer.replicas)
    return math.ceil(batches / trainer.accumulate_grad_batches)


def _split_among_processes(loaders: Loaders, rank: int, world_size: int) -> None:
    """Give this process its fraction of the examples and its own random numbers."""
    for loader in loaders.values():
        if hasattr(loader, "share"):  # Lightning splits other loaders.
            loader.share(rank, world_size)
    if rank:  # Rank 0 keeps the seed, so that it is the same as in a run with one process.
        seed_everything((torch.initial_seed() + rank * 1_000_003) % 2**63)


USELESS_WARNINGS = (
    ".*LeafSpec.* is deprecated",  # Lightning 2.6 with PyTorch 2.13
    ".*find_unused_parameters=True was specified.*",
    # Outputs are not changed in place.
    ".*FSDP2-wrapped module.*returned a view tensor.*",
    # The user chooses the number of workers.
    ".*does not have many workers.*",
    # Edgewise reports metrics once per epoch.
    ".*smaller than the logging interval.*",
)


@contextmanager
def _running() -> Iterator[None]:
    """Hide useless messages of Lightning, explain errors of loaders, and raise Interrupted."""
    from lightning.pytorch.utilities.exceptions import SIGTERMException

    log = logging.getLogger("lightning.pytorch")
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        several = rank_and_world_size()[1] > 1
        with warnings.catch_warnings(), communicating() if several else nullcontext():
            for message in USELESS_WARNINGS:
                warnings.filterwarnings("ignore", message)
            yield
    except SystemExit as error:
        terminated = isinstance(error, SIGTERMException)
        raise Interrupted(signal.SIGTERM if terminated else signal.SIGINT) from error
    except (RuntimeError, TypeError) as error:
        raise_explained(error)
    finally:
        log.setLevel(level)


COLOURS = {"train": "#9aa7b8", "val": "#1f6feb"}


def curves(rows: list[Row], kept_epoch: int) -> Figure:
    """Return a figure of the training and validation metrics over epochs, a panel each."""
    require("matplotlib", extra="plot", purpose="drawing learning curves")
    from matplotlib.figure import Figure

    names = [key.removeprefix("val/") for key in rows[0] if key.startswith("val/")]
    names = [name for name in names if "/" not in name]
    figure = Figure(figsize=(4.6 * len(names), 3.4), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    epochs = [row["epoch"] for row in rows]
    for axes, name in zip(panels, names, strict=True):
        for split, colour in COLOURS.items():
            values = [row[f"{split}/{name}"] for row in rows]
            axes.plot(epochs, values, color=colour, label=split, linewidth=1.4, marker=".")
        axes.axvline(kept_epoch, color="#d1495b", linewidth=0.9, linestyle=":", label="kept epoch")
        axes.set_title(name, fontsize=10, loc="left")
        axes.set_xlabel("epoch", fontsize=8)
        axes.locator_params(axis="x", integer=True)  # Epochs are integers.
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
    panels[0].legend(fontsize=8, frameon=False)
    return figure
