"""Tasks that several kinds of problems share."""

from __future__ import annotations

from edgewise.app.train.task import Task
from edgewise.app.train.tasks.classification import Classification
from edgewise.app.train.tasks.property_prediction import PropertyPrediction
from edgewise.app.train.tasks.regression import Regression
from edgewise.app.train.tasks.text_classification import Tagging, TextClassification

SHARED_TASKS: dict[str, type[Task]] = {
    "classification": Classification,
    "property_prediction": PropertyPrediction,
    "regression": Regression,
    "tagging": Tagging,
    "text_classification": TextClassification,
}
"""Task classes by the name that run folders use."""
