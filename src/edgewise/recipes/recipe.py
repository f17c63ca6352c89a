"""What a recipe is, and how it is measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from edgewise.arguments import check_seed
from edgewise.data import Data
from edgewise.tasks import Task
from edgewise.training import OptimizerSettings, Schedule, TrainerSettings


@dataclass(frozen=True)
class Protocol:
    """How a recipe is measured, and what its number stands beside in ``docs/results.md``.

    Attributes:
        metrics: what is reported, such as ``test/accuracy``.
        reference: the published or measured figure, and whose it is.
        says: the split and how the epoch is chosen, in words.
        seeds: how many; 0 trains once, with the recipe's own.
        folds: whether each fold is tested in turn.

    """

    metrics: tuple[str, ...]
    reference: str
    says: str
    seeds: int = 0
    folds: bool = False

    @property
    def options(self) -> str:
        """Of ``edgewise train``."""
        return "--folds" if self.folds else f"--seeds {self.seeds}" if self.seeds else ""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a run.

    Attributes:
        name: as ``edgewise train`` knows it.
        summary: one line: model, data, and what to expect.
        model: one of ``models.MODELS`` with some of its arguments; the data add theirs.
        data, task, optimizer, schedule, trainer: the parts, with their numbers.
        seed: of the weights, the dropout and the order of the examples.
        start: the folder of a run whose weights training starts from, "" for none; ``--from`` on
            the command line, ``from`` among the fields.
        protocol: how it is measured. Decides nothing about a run, and is not recorded with it.

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
