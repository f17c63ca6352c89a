"""Classes and numbers for texts."""

from __future__ import annotations

from edgewise.app.kinds.kind import Baselines, Kind, recipes_in
from edgewise.app.kinds.texts import reasons, recipes
from edgewise.app.kinds.texts.data import LabelledSentences
from edgewise.app.kinds.texts.files import SST2, TextTable
from edgewise.app.kinds.texts.predict import SentenceClasses, SentenceProperties
from edgewise.app.predict.pages import explain_text
from edgewise.app.predict.texts import OnTexts
from edgewise.app.train.preprocessing import Preprocessing
from edgewise.app.train.tasks.text_classification import TextClassification

__all__ = ["KIND", "SST2", "TextTable"]

QUICK = 20_000
"""Maximum number of training texts with which ``edgewise train`` evaluates baselines."""


def is_large(run: Preprocessing) -> bool:
    """Return whether the baselines for these data take more than about a minute."""
    return run.train_examples > QUICK


KIND = Kind(
    "texts",
    recipes=recipes_in(recipes),
    data={"sst2": SST2, "text_table": TextTable},
    predictors=(SentenceClasses, SentenceProperties),
    baselines=(
        Baselines(
            "texts",
            "sst2",
            LabelledSentences,
            (TextClassification,),
            "edgewise.app.kinds.texts.baseline",
            is_large=is_large,
        ),
    ),
    cases={
        SentenceClasses: reasons.sentence_class,
        SentenceProperties: reasons.sentence_properties,
    },
    explanations={OnTexts: explain_text},
)


def __dir__() -> list[str]:
    return __all__
