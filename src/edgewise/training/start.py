"""The two entry points, which import Lightning only when they are called."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from torch import nn

from edgewise.errors import require
from edgewise.training.folder import RunFolder
from edgewise.training.interfaces import Loader, Task
from edgewise.training.optimizer import Optimizer
from edgewise.training.rng import seed_everything
from edgewise.training.schedule import Schedule
from edgewise.training.settings import Trainer

__all__ = ["evaluate", "fit", "seed_everything"]


def fit(
    model: nn.Module,
    task: Task,
    loaders: Mapping[str, Loader],
    folder: RunFolder,
    *,
    optimizer: Optimizer,
    schedule: Schedule,
    trainer: Trainer,
    title: str = "training",
) -> dict[str, float]:
    """Train, restore the best epoch's weights, test, and write the run folder.

    It continues from ``folder.checkpoint`` where that is, to the numbers of an unbroken run.

    Args:
        model: called ``model(*batch.inputs, **batch.keywords)``; holds the best weights afterwards.
        task: loss and metrics.
        loaders: ``train``, ``val`` and ``test``.
        folder: exists already; gets ``log.csv``, ``model.safetensors``, ``curves.png`` and, as the
            last, ``metrics.json``.
        optimizer: which one, and its numbers.
        schedule: the factor on its learning rate.
        trainer: how long, what to monitor, when to stop.
        title: what the progress display says.

    Returns:
        The metrics of ``metrics.json``.

    Raises:
        ArgumentError: no such metric to monitor, or the loss became NaN or infinite.
        Interrupted: Ctrl-C or SIGTERM; a checkpoint has been left.
        MissingExtraError: Lightning is not installed.

    """
    metrics: dict[str, float] = _lightning().fit(
        model,
        task,
        loaders,
        folder,
        optimizer=optimizer,
        schedule=schedule,
        settings=trainer,
        title=title,
    )
    return metrics


def evaluate(
    model: nn.Module, task: Task, loaders: Mapping[str, Loader], *, accelerator: str = "auto"
) -> dict[str, float]:
    """Loss and metrics on ``val`` and ``test``, such as ``{"test/accuracy": 0.83, ...}``."""
    metrics: dict[str, float] = _lightning().evaluate(model, task, loaders, accelerator)
    return metrics


def _lightning() -> ModuleType:
    for package in ("lightning", "torchmetrics", "safetensors", "rich"):
        require(package, extra="train", purpose="training")
    from edgewise.training import run

    return run
