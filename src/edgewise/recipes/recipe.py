"""What a recipe is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from edgewise.data import Data
from edgewise.tasks import Task
from edgewise.training import Optimizer, Schedule, Trainer


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

    """

    name: str
    summary: str
    model: partial[Any]
    data: Data
    task: Task
    optimizer: Optimizer
    schedule: Schedule
    trainer: Trainer
    seed: int = 0
    start: str = ""
