"""Classes of recipes and of their measurement protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from edgewise.arguments import check_seed
from edgewise.data import Data
from edgewise.targets import Target
from edgewise.tasks import Task
from edgewise.training import OptimizerSettings, Schedule, TrainerSettings


@dataclass(frozen=True)
class Protocol:
    """Protocol by which ``docs/background/results.md`` measures a recipe.

    Attributes:
        metrics: names of the reported metrics, such as ``test/accuracy``.
        reference: published figure to compare with, and its source.
        says: the data split and the choice of the epoch, in words.
        seeds: number of random seeds; 0 trains once, with the seed of the recipe.
        folds: whether to cross-validate.
    """

    metrics: tuple[str, ...]
    reference: str
    says: str
    seeds: int = 0
    folds: bool = False

    @property
    def options(self) -> str:
        """Options of ``edgewise train`` that follow the protocol."""
        return "--folds" if self.folds else f"--seeds {self.seeds}" if self.seeds else ""


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a training run.

    Attributes:
        name: name for ``edgewise train``.
        summary: model, data and expected result on one line.
        model: function of ``models.MODELS`` with its arguments, except those of the data set.
        data: data set.
        task: loss, metrics and output head.
        optimizer: optimizer settings.
        schedule: learning rate schedule.
        trainer: settings of the training loop.
        seed: random seed for initialisation, dropout and shuffling.
        start: run folder or Hugging Face folder whose weights initialise the backbone; empty for
            random weights. In the command and in ``recipe.json`` it is called ``from``.
        protocol: measurement protocol; it does not affect the run and is not recorded.

    Example:
        >>> from dataclasses import replace
        >>> from edgewise import recipes
        >>> recipe = replace(recipes.find("digits"), name="digits-3", seed=3)
        >>> recipe.model.func.__name__, recipe.trainer.monitor
        ('vit', 'val/loss')
    """

    name: str
    summary: str
    model: partial[Any]
    data: Data
    task: Task
    optimizer: OptimizerSettings
    schedule: Schedule
    trainer: TrainerSettings
    seed: int = 0
    start: str = ""
    protocol: Protocol | None = None

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)

    def for_targets(self, targets: Sequence[Target]) -> Recipe:
        """Return the recipe with the task and the monitored metric for the targets of its data."""
        task, trainer = self.task.with_targets(targets), self.trainer.for_targets(targets)
        return replace(self, task=task, trainer=trainer)
