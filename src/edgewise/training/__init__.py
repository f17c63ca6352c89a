"""Training with Lightning: fitting, evaluation, interruption, resumption and run folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgewise.errors import Interrupted, require
from edgewise.training.distributed import rank_and_world_size
from edgewise.training.fitting import evaluate, fit
from edgewise.training.folder import RunFolder
from edgewise.training.optimizer import OptimizerSettings
from edgewise.training.rng import seed_everything
from edgewise.training.schedule import (
    SCHEDULES,
    ConstantSchedule,
    CosineSchedule,
    LinearSchedule,
    NoamSchedule,
    Schedule,
)
from edgewise.training.settings import TrainerSettings

if TYPE_CHECKING:
    from edgewise.training.lightning_module import TrainingModule

__all__ = [
    "SCHEDULES",
    "ConstantSchedule",
    "CosineSchedule",
    "Interrupted",
    "LinearSchedule",
    "NoamSchedule",
    "OptimizerSettings",
    "RunFolder",
    "Schedule",
    "TrainerSettings",
    "TrainingModule",
    "evaluate",
    "fit",
    "rank_and_world_size",
    "seed_everything",
]


def __getattr__(name: str) -> Any:
    """Import TrainingModule on first use, because Lightning is an optional dependency."""
    if name == "TrainingModule":
        require("lightning", extra="train", purpose="training")
        from edgewise.training.lightning_module import TrainingModule

        return TrainingModule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
