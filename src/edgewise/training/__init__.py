"""Training, on Lightning: how a model is fitted, watched, stopped, continued and written down."""

from __future__ import annotations

from edgewise.training.folder import RunFolder
from edgewise.training.interrupt import Interrupted
from edgewise.training.optimizer import Optimizer
from edgewise.training.place import place
from edgewise.training.schedule import SCHEDULES, Schedule, constant, cosine, linear, noam
from edgewise.training.settings import Trainer
from edgewise.training.start import evaluate, fit, seed_everything

__all__ = [
    "SCHEDULES",
    "Interrupted",
    "Optimizer",
    "RunFolder",
    "Schedule",
    "Trainer",
    "constant",
    "cosine",
    "evaluate",
    "fit",
    "linear",
    "noam",
    "place",
    "seed_everything",
]


def __dir__() -> list[str]:
    return __all__
