"""Tasks: the loss to train on and the metrics to report."""

from __future__ import annotations

from edgewise.tasks.captioning import Captioning as captioning
from edgewise.tasks.classification import Classification as classification
from edgewise.tasks.consistency import Consistency as consistency
from edgewise.tasks.forecast import Forecast as forecast
from edgewise.tasks.link_prediction import LinkPrediction as link_prediction
from edgewise.tasks.next_token import NextToken as next_token
from edgewise.tasks.recommendation import Recommendation as recommendation
from edgewise.tasks.regression import Regression as regression
from edgewise.tasks.task import Task
from edgewise.tasks.translation import Translation as translation

TASKS: dict[str, type[Task]] = {
    "captioning": captioning,
    "classification": classification,
    "consistency": consistency,
    "forecast": forecast,
    "link_prediction": link_prediction,
    "next_token": next_token,
    "recommendation": recommendation,
    "regression": regression,
    "translation": translation,
}
"""Every task by the name that run folders use."""

__all__ = [
    "TASKS",
    "Task",
    "captioning",
    "classification",
    "consistency",
    "forecast",
    "link_prediction",
    "next_token",
    "recommendation",
    "regression",
    "translation",
]
