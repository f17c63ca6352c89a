"""Training with Lightning: fitting, evaluation, interruption, resumption and run folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgewise._utils.errors import Interrupted, require
from edgewise.app.train.baseline import Candidate, NoBaselineError, Score, Writer
from edgewise.app.train.batches import Batch, WritingBatch
from edgewise.app.train.fitting import evaluate, fit
from edgewise.app.train.folder import RunFolder
from edgewise.app.train.layerwise import LayerwiseOutputs
from edgewise.app.train.neighbours import NeighbourSampler, neighbour_batches
from edgewise.app.train.packed import PackedGraphs
from edgewise.app.train.process import rank_and_world_size, seed_everything
from edgewise.app.train.recipe import OptimizerSettings, Protocol, Recipe, TrainerSettings
from edgewise.app.train.schedule import (
    SCHEDULES,
    ConstantSchedule,
    CosineSchedule,
    LinearSchedule,
    NoamSchedule,
    Schedule,
)
from edgewise.app.train.splits import Data, Loader, Split, Splits, TextSplits
from edgewise.app.train.target_scaling import TargetScaling
from edgewise.app.train.task import Task
from edgewise.app.train.tasks.classification import Classification
from edgewise.app.train.tasks.property_prediction import PropertyPrediction
from edgewise.app.train.tasks.regression import Regression
from edgewise.app.train.tasks.text_classification import Tagging, TextClassification

if TYPE_CHECKING:
    from edgewise.app.train.lightning_module import TrainingModule

__all__ = [
    "SCHEDULES",
    "Batch",
    "Candidate",
    "Classification",
    "ConstantSchedule",
    "CosineSchedule",
    "Data",
    "Interrupted",
    "LayerwiseOutputs",
    "LinearSchedule",
    "Loader",
    "NeighbourSampler",
    "NoBaselineError",
    "NoamSchedule",
    "OptimizerSettings",
    "PackedGraphs",
    "PropertyPrediction",
    "Protocol",
    "Recipe",
    "Regression",
    "RunFolder",
    "Schedule",
    "Score",
    "Split",
    "Splits",
    "Tagging",
    "TargetScaling",
    "Task",
    "TextClassification",
    "TextSplits",
    "TrainerSettings",
    "TrainingModule",
    "Writer",
    "WritingBatch",
    "evaluate",
    "fit",
    "neighbour_batches",
    "rank_and_world_size",
    "seed_everything",
]


def __getattr__(name: str) -> Any:
    """Import TrainingModule on first use, because Lightning is an optional dependency."""
    if name == "TrainingModule":
        require("lightning", extra="train", purpose="training")
        from edgewise.app.train.lightning_module import TrainingModule

        return TrainingModule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
