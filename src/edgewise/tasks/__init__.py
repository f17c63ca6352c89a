"""Tasks: the loss to train on and the metrics to report."""

from __future__ import annotations

from edgewise.base_task import Task
from edgewise.tasks.captioning import Captioning as captioning
from edgewise.tasks.classification import Classification as classification
from edgewise.tasks.consistency import Consistency as consistency
from edgewise.tasks.extraction import Extraction as extraction
from edgewise.tasks.forecast import Forecast as forecast
from edgewise.tasks.language_modeling import LanguageModeling as language_modeling
from edgewise.tasks.link_prediction import LinkPrediction as link_prediction
from edgewise.tasks.masked_language_modeling import (
    MaskedLanguageModeling as masked_language_modeling,
)
from edgewise.tasks.recommendation import Recommendation as recommendation
from edgewise.tasks.regression import Regression as regression
from edgewise.tasks.text_classification import Tagging as tagging
from edgewise.tasks.text_classification import TextClassification as text_classification
from edgewise.tasks.translation import Translation as translation

TASKS: dict[str, type[Task]] = {
    "captioning": captioning,
    "classification": classification,
    "consistency": consistency,
    "extraction": extraction,
    "forecast": forecast,
    "language_modeling": language_modeling,
    "link_prediction": link_prediction,
    "masked_language_modeling": masked_language_modeling,
    "recommendation": recommendation,
    "regression": regression,
    "tagging": tagging,
    "text_classification": text_classification,
    "translation": translation,
}
"""Every task by the name that run folders use."""

__all__ = [
    "TASKS",
    "Task",
    "captioning",
    "classification",
    "consistency",
    "extraction",
    "forecast",
    "language_modeling",
    "link_prediction",
    "masked_language_modeling",
    "recommendation",
    "regression",
    "tagging",
    "text_classification",
    "translation",
]


def __dir__() -> list[str]:
    return __all__
