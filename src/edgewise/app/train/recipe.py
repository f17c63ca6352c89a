"""Class of recipes, and class of the protocols by which their results are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from edgewise._utils.arguments import check_seed
from edgewise.app.files.targets import Target
from edgewise.app.train.optimizer import OptimizerSettings
from edgewise.app.train.schedule import Schedule
from edgewise.app.train.settings import TrainerSettings
from edgewise.app.train.splits import Data
from edgewise.app.train.task import Task


@dataclass(frozen=True)
class Protocol:
    """Protocol by which the results of a recipe in ``docs/background/results.md`` are measured.

    Attributes:
        metrics: names of the reported metrics, such as ``test/accuracy``.
        reference: published result to compare with, and its source.
        says: description of the data split and of how the epoch is chosen.
        seeds: number of random seeds; 0 trains once, with the seed of the recipe.
        folds: whether to cross-validate, with ``seeds`` trainings for each fold.
    """

    metrics: tuple[str, ...]
    reference: str
    says: str
    seeds: int = 0
    folds: bool = False

    @property
    def options(self) -> str:
        """Options of ``edgewise train`` with which a run follows the protocol."""
        return " ".join(["--folds"] * self.folds + [f"--seeds {self.seeds}"] * bool(self.seeds))


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a training run.

    Attributes:
        name: name for ``edgewise train``.
        summary: model, data and expected result on one line.
        model: function in ``models.MODELS`` with its arguments, except those that the data
            determine.
        task: loss, metrics and output head.
        seed: random seed for initialisation, dropout and shuffling.
        start: run folder or Hugging Face folder whose weights initialise the backbone; empty for
            random weights. On the command line and in ``recipe.json``, this field is called
            ``from``; the command line also takes the architecture from the folder.
        protocol: measurement protocol. It does not affect training and is not recorded.

    Example:
        >>> from dataclasses import replace
        >>> from edgewise.app.kinds import find
        >>> recipe = replace(find("digits"), name="digits-3", seed=3)
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

    def for_targets(self, targets: Sequence[Target], class_counts: Sequence[int] = ()) -> Recipe:
        """Return the recipe with a task and a monitored metric that fit the loaded targets."""
        task = self.task.with_targets(targets, class_counts)
        trainer = self.trainer.for_targets(targets)
        return replace(self, task=task, trainer=trainer)
