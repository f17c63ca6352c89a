"""Tasks: each consists of a training loss and evaluation metrics."""

from __future__ import annotations

from edgewise.base_task import Task
from edgewise.plugins import Registry
from edgewise.tasks.classification import Classification
from edgewise.tasks.consistency import Consistency
from edgewise.tasks.contrastive import Contrastive
from edgewise.tasks.forecast import Forecast
from edgewise.tasks.language_modeling import LanguageModeling, MaskedLanguageModeling
from edgewise.tasks.link_prediction import LinkPrediction
from edgewise.tasks.property_prediction import PropertyPrediction
from edgewise.tasks.recommendation import Recommendation
from edgewise.tasks.regression import Regression
from edgewise.tasks.text_classification import Tagging, TextClassification
from edgewise.tasks.translation import Translation

TASKS: Registry[type[Task]] = Registry(
    "TASKS",
    {
        "classification": Classification,
        "consistency": Consistency,
        "contrastive": Contrastive,
        "forecast": Forecast,
        "language_modeling": LanguageModeling,
        "link_prediction": LinkPrediction,
        "masked_language_modeling": MaskedLanguageModeling,
        "property_prediction": PropertyPrediction,
        "recommendation": Recommendation,
        "regression": Regression,
        "tagging": Tagging,
        "text_classification": TextClassification,
        "translation": Translation,
    },
)
"""Tasks by the name that run folders use, including those that installed packages add."""

__all__ = [
    "TASKS",
    "Classification",
    "Consistency",
    "Contrastive",
    "Forecast",
    "LanguageModeling",
    "LinkPrediction",
    "MaskedLanguageModeling",
    "PropertyPrediction",
    "Recommendation",
    "Regression",
    "Tagging",
    "Task",
    "TextClassification",
    "Translation",
]


def __dir__() -> list[str]:
    return __all__
